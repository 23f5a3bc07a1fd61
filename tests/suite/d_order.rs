//! Order: what comes before what, and who waits.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use cupool::{Buffer, Error};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{fixture::Fixture, gate::Gate, scenario};

#[test]
fn d3_a_view_with_an_offset_is_fenced_as_the_whole_buffer_is() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut target = pool.alloc_zeroed::<u16, _>(10, &second).unwrap();
        let mut source = pool.alloc::<u32, _>(1000, &first).unwrap();
        source.fill(0x0002_0001).unwrap();
        // The end of it, as elements of another type.
        let view = source.slice(900..).unwrap().cast::<u16>().unwrap().slice(50..60).unwrap();
        target.copy_from(view).unwrap();
        drop(source);
        drop(pool.alloc_zeroed::<u32, _>(1000, &first).unwrap());
        assert_eq!(target.to_vec().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
        fixture.assert_no_findings();
    }
}

#[test]
fn d7_a_fresh_allocation_that_another_stream_reads_comes_before_that() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut target = pool.alloc_zeroed::<u32, _>(100, &second).unwrap();
        let fresh = pool.alloc::<u32, _>(100, &first).unwrap();
        target.copy_from(fresh.as_slice()).unwrap();
        let mut fresh = pool.alloc::<u32, _>(100, &first).unwrap();
        fresh.on(&second).unwrap().as_mut_slice().fill(1).unwrap();
        second.synchronize().unwrap();
        fixture.assert_no_findings();
    }
}

#[test]
fn d8_nothing_waits_for_the_device_but_what_says_so() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    let (pool, first, second) = (fixture.pool(), fixture.shared_stream(), fixture.shared_stream());
    let waits = || {
        [Symbol::cuStreamSynchronize, Symbol::cuCtxSynchronize, Symbol::cuEventSynchronize, Symbol::cuMemFreeHost]
            .map(|symbol| fixture.sim().count(symbol))
    };
    let mut source = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&first)).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&second)).unwrap();
    source.copy_from_host(&[1; 100]).unwrap();
    target.copy_from(source.as_slice()).unwrap();
    source.on(&second).unwrap().as_mut_slice().fill(2).unwrap();
    drop(source.read_on(&second).unwrap());
    let mut host = cupool::PinnedBuffer::<u32>::new(&context, 100).unwrap();
    target.copy_to_pinned(&mut host).unwrap();
    drop(host);
    let moved = target.move_to(Arc::clone(&first)).unwrap();
    assert!(fixture.sim().live().pending_operations > 0);
    drop((moved, source, pool));
    assert_eq!(waits(), [0; 4]);
    first.synchronize().unwrap();
    assert_eq!(waits(), [1, 0, 0, 0]);
}

#[test]
fn d9_no_copy_or_fill_goes_by_the_default_stream() {
    let fixture = Fixture::simulated();
    assert_eq!(scenario::everything(fixture.driver()), []);
    let by_itself = |name: &str| name.starts_with("cuMemcpy") || name.starts_with("cuMemset");
    let calls = fixture.sim().calls();
    let copies: Vec<&str> = calls.iter().map(|call| call.row()).filter(|name| by_itself(name)).collect();
    assert!(copies.len() > 10);
    assert!(copies.iter().all(|name| name.ends_with("Async")), "{copies:?}");
}

#[test]
fn d10_a_copy_between_devices_memory_is_over_when_somebody_waited_and_not_before() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let source = pool.alloc_zeroed::<u8, _>(1000, &stream).unwrap();
    let mut target = pool.alloc::<u8, _>(1000, &stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    target.copy_from(source.as_slice()).unwrap();
    fixture.assert_pending(&stream);
    gate.open();
    stream.synchronize().unwrap();
    assert_eq!(stream.query(), Ok(true));
    assert_eq!(target.to_vec().unwrap(), [0; 1000]);
}

#[test]
fn d12_a_buffer_that_is_dropped_inside_a_host_function_is_leaked_and_nothing_else_happens() {
    static HIDDEN: Mutex<Option<Buffer<u8>>> = Mutex::new(None);
    let fixture = Fixture::unchecked();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let other = fixture.shared_stream();
    *HIDDEN.lock().unwrap() = Some(pool.alloc_zeroed(10, Arc::clone(&other)).unwrap());
    // It captures nothing that owns: the way there leads through a static.
    stream.call_host(|| drop(HIDDEN.lock().unwrap_or_else(PoisonError::into_inner).take())).unwrap();
    let mut later = pool.alloc::<u8, _>(10, &*stream).unwrap();
    later.fill(1).unwrap();
    assert_eq!(later.to_vec().unwrap(), [1; 10]);
    drop(later);
    // The driver refused the call, and the simulated one says that it was made.
    assert_eq!(fixture.sim().live().allocations, 1);
    let findings = fixture.sim().take_findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].misuse, cupool_sim::Misuse::CallInHostFunction);
    other.synchronize().unwrap();
}

#[test]
fn d15_a_stream_that_lost_its_order_changes_nothing_for_any_other() {
    let fixture = Fixture::unchecked();
    let (pool, lost, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let source = pool.alloc_zeroed::<u8, _>(10, &lost).unwrap();
    let mut target = pool.alloc_zeroed::<u8, _>(10, &other).unwrap();
    for (symbol, nth) in
        [(Symbol::cuStreamWaitEvent, 1), (Symbol::cuStreamSynchronize, 0), (Symbol::cuCtxSynchronize, 0)]
    {
        fixture.sim().fail(symbol, nth, CUresult::CUDA_ERROR_UNKNOWN);
    }
    assert!(target.copy_from(source.as_slice()).is_err());
    assert_eq!(source.free(), Err(Error::OrderLost));
    let third = fixture.stream();
    let near = pool.alloc_zeroed::<u8, _>(10, &other).unwrap();
    let far = pool.alloc_zeroed::<u8, _>(10, &third).unwrap();
    let fill = [Symbol::cuMemsetD8Async];
    fixture.expect_calls(&fill, || target.fill(1).unwrap());
    fixture.expect_calls(&[Symbol::cuMemcpyDtoDAsync], || target.copy_from(near.as_slice()).unwrap());
    target.copy_from(far.as_slice()).unwrap();
    assert_eq!(target.to_vec().unwrap(), [0; 10]);
    drop((near, far, target));
    assert_eq!(fixture.sim().live().allocations, 1, "only what was lost");
    fixture.assert_no_findings();
}

#[test]
fn e5_a_host_copy_takes_what_the_slice_holds_at_the_call() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(100, &stream).unwrap();
    let mut samples = vec![1_u32; 100];
    buffer.copy_from_host(&samples).unwrap();
    stream.synchronize().unwrap();
    let gate = Gate::on(&fixture, &stream);
    samples.fill(2);
    buffer.copy_from_host(&samples).unwrap();
    // Neither what the slice held before nor what it holds when the copy runs.
    samples.fill(3);
    drop(samples);
    gate.open();
    assert_eq!(buffer.to_vec().unwrap(), [2; 100]);
}

#[test]
fn k1_k6_threads_that_allocate_free_trim_and_ask_leave_the_pool_empty() {
    let fixture = Fixture::new();
    let pool = fixture.pool();
    let shared = fixture.shared_stream();
    thread::scope(|scope| {
        for thread in 0..6_usize {
            let (pool, shared, fixture) = (&pool, &shared, &fixture);
            scope.spawn(move || {
                let own = fixture.stream();
                for round in 0..50 {
                    let stream = if (thread + round) % 2 == 0 { &**shared } else { &own };
                    let mut buffer = pool.alloc::<u8, _>(1 + 997 * round, stream).unwrap();
                    buffer.fill(thread as u8).unwrap();
                    match (thread + round) % 5 {
                        0 => drop(pool.trim_to(0).unwrap()),
                        1 => drop(pool.usage().unwrap()),
                        2 => assert!(buffer.to_vec().unwrap().iter().all(|byte| usize::from(*byte) == thread)),
                        _ => buffer.free().unwrap(),
                    }
                }
                own.synchronize().unwrap();
            });
        }
    });
    shared.synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().used, 0);
    assert_eq!(pool.trim_to(0).unwrap().reserved, 0);
}
