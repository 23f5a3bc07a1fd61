//! What pools and graphs hold, what they give back when they are told to, and how far they may grow.

use core::ptr;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use cupool::{
    Buffer, Error, GraphMemoryUsage, MemPool, MemPoolProperties, MemPoolRef, OutOfMemory, Rescue, Stream, Trimmed,
    cuda_sys::CUstreamCaptureMode,
};
use cupool_sim::{CUresult, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    gate::Gate,
};

const MIB: usize = 1 << 20;

fn out_of_memory(error: Error) -> OutOfMemory {
    match error {
        Error::OutOfMemory(details) => *details,
        other => panic!("{other:?} is not OutOfMemory"),
    }
}

#[test]
fn f2_a_peak_above_the_threshold_is_told() {
    let fixture = Fixture::alone();
    let (mut pool, stream) = (fixture.pool(), fixture.stream());
    drop(pool.alloc::<u8, _>(40 * MIB, &stream).unwrap());
    stream.synchronize().unwrap();
    assert_eq!(pool.threshold_shortfall(), Ok(0), "it keeps everything");
    let high = pool.usage().unwrap().reserved_high;
    assert!(high >= 40 << 20);
    pool.set_release_threshold(8 << 20).unwrap();
    assert_eq!(pool.threshold_shortfall(), Ok(high - (8 << 20)));
    pool.set_release_threshold(high).unwrap();
    assert_eq!(pool.threshold_shortfall(), Ok(0));
    // The peak is what counts, not what is held now.
    pool.set_release_threshold(0).unwrap();
    stream.synchronize().unwrap();
    pool.trim_to(0).unwrap();
    assert_eq!((pool.usage().unwrap().reserved, pool.threshold_shortfall()), (0, Ok(high)));
    pool.reset_peaks().unwrap();
    assert_eq!(pool.threshold_shortfall(), Ok(0));
}

#[test]
fn f7_a_trim_after_a_stream_waits_for_its_frees_and_gives_their_memory_back() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(32 * MIB, &stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    buffer.fill(1).unwrap();
    drop(buffer);
    let held = pool.usage().unwrap().reserved;
    let trimmed = pool.trim_to(0).unwrap();
    assert_eq!((trimmed.released, trimmed.used, trimmed.unused()), (0, 0, held), "the free is still to come");
    gate.open();
    assert_eq!(pool.trim_after(&stream, 0).unwrap(), Trimmed { released: held, reserved: 0, used: 0 });
}

#[test]
fn f7_what_another_stream_has_yet_to_free_keeps_its_memory() {
    let fixture = Fixture::alone();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(32 * MIB, &other).unwrap();
    let gate = Gate::on(&fixture, &other);
    buffer.fill(1).unwrap();
    drop(buffer);
    let trimmed = pool.trim_after(&stream, 0).unwrap();
    assert_eq!(trimmed.released, 0);
    assert!(trimmed.unused() >= 32 << 20, "{trimmed:?}");
    gate.open();
    assert!(pool.trim_after(&other, 0).unwrap().released >= 32 << 20);
}

#[test]
fn f7_what_lives_is_told_from_what_is_held_for_nothing() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let kept = pool.alloc::<u8, _>(10 * MIB, &stream).unwrap();
    drop(pool.alloc::<u8, _>(40 * MIB, &stream).unwrap());
    let trimmed = pool.trim_after(&stream, 0).unwrap();
    assert_eq!(trimmed.used, 10 << 20);
    assert_eq!(trimmed.unused(), trimmed.reserved - (10 << 20), "it shares its pages with what lives");
    drop(kept);
    assert_eq!(pool.trim_after(&stream, 0).unwrap().unused(), 0);
}

#[test]
fn f7_a_trim_does_not_wait_for_a_stream_that_is_being_captured() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    drop(pool.alloc::<u8, _>(100, &stream).unwrap());
    let ((), graph) = captured(&stream, || assert_eq!(pool.trim_after(&stream, 0), Err(Error::StreamCapturing)));
    graph.end();
    assert!(pool.trim_after(&stream, 0).unwrap().released > 0);
}

#[test]
fn f8_one_pools_trim_leaves_another_pools_memory_alone() {
    let fixture = Fixture::alone();
    let (mine, theirs, stream) = (fixture.pool(), fixture.pool(), fixture.stream());
    for pool in [&mine, &theirs] {
        drop(pool.alloc::<u8, _>(10 * MIB, &stream).unwrap());
    }
    stream.synchronize().unwrap();
    let held = theirs.usage().unwrap().reserved;
    assert!(mine.trim_to(0).unwrap().released >= 10 << 20);
    assert_eq!(theirs.usage().unwrap().reserved, held);
    // What is kept is found again without growing.
    assert_eq!(theirs.trim_after(&stream, POOL_SIZE).unwrap().released, 0);
    drop(theirs.alloc::<u8, _>(10 * MIB, &stream).unwrap());
    assert_eq!(theirs.usage().unwrap().reserved, held);
}

/// A graph that came from a capture, made by hand.
struct Graph(cupool::cuda_sys::CUgraph, cupool::Driver);

impl Graph {
    /// Launches it a few times, one after the other; its launchable form is no more then.
    fn launch(&self, times: usize, stream: &Stream) {
        let functions = self.1.functions();
        let mut exec = ptr::null_mut();
        let ok = CUresult::CUDA_SUCCESS;
        // SAFETY: the graph and the stream are live, and what is made is used and ended here.
        unsafe {
            let instantiate = || Ok(functions.cuGraphInstantiateWithFlags.unwrap()(&raw mut exec, self.0, 0));
            assert_eq!(stream.context().with_current(instantiate), Ok(ok));
            for _ in 0..times {
                assert_eq!(functions.cuGraphLaunch.unwrap()(exec, stream.as_raw()), ok);
                stream.synchronize().unwrap();
            }
            assert_eq!(functions.cuGraphExecDestroy.unwrap()(exec), ok);
        }
    }

    fn end(self) {
        // SAFETY: the graph is owned, and ends here.
        assert_eq!(unsafe { self.1.functions().cuGraphDestroy.unwrap()(self.0) }, CUresult::CUDA_SUCCESS);
    }
}

/// Runs `work` while the stream is being captured.
fn captured<R>(stream: &Stream, work: impl FnOnce() -> R) -> (R, Graph) {
    let functions = stream.driver().functions();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is live.
    assert_eq!(unsafe { functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode) }, CUresult::CUDA_SUCCESS);
    let result = work();
    let mut graph = ptr::null_mut();
    // SAFETY: the stream is live and captures, and the call writes one handle.
    let code = unsafe { functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph) };
    assert_eq!(code, CUresult::CUDA_SUCCESS, "the capture was spoilt");
    (result, Graph(graph, stream.driver()))
}

/// A graph that allocates, fills and frees so many bytes.
fn graph_of(bytes: usize, pool: &MemPool, stream: &Stream) -> Graph {
    let functions = stream.driver().functions();
    let allocate = || {
        let mut address = 0;
        let ok = CUresult::CUDA_SUCCESS;
        // SAFETY: stream and pool are live; the memory is the graph's, and is used between its allocation and its free.
        unsafe {
            let code = (functions.cuMemAllocFromPoolAsync)(&raw mut address, bytes, pool.as_raw(), stream.as_raw());
            assert_eq!(code, ok);
            assert_eq!((functions.cuMemsetD8Async)(address, 1, bytes, stream.as_raw()), ok);
            assert_eq!((functions.cuMemFreeAsync)(address, stream.as_raw()), ok);
        }
    };
    captured(stream, allocate).1
}

#[test]
fn f9_memory_of_graphs_is_no_pools_and_is_given_back_by_a_trim_of_its_own() {
    let fixture = Fixture::alone();
    let (device, pool, stream) = (fixture.device(), fixture.pool(), fixture.stream());
    device.trim_graph_memory().unwrap();
    device.reset_graph_memory_peaks().unwrap();
    let before = device.graph_memory_usage().unwrap();
    assert_eq!((before.used_high, before.reserved_high), (before.used, before.reserved));
    let graph = graph_of(20 * MIB, &pool, &stream);
    graph.launch(3, &stream);
    graph.end();
    let after = device.graph_memory_usage().unwrap();
    assert!(after.reserved >= before.reserved + (20 << 20), "{before:?} {after:?}");
    assert!(after.used_high >= 20 << 20 && after.reserved_high >= after.reserved, "{after:?}");
    // No pool knows of it.
    assert_eq!(pool.usage().unwrap().used, 0);
    pool.trim_after(&stream, 0).unwrap();
    assert_eq!(device.graph_memory_usage().unwrap().reserved, after.reserved);
    let released = device.trim_graph_memory().unwrap();
    assert!(released >= 20 << 20, "{released}");
    assert_eq!(device.graph_memory_usage().unwrap().reserved, after.reserved - released);
    assert_eq!(device.trim_graph_memory(), Ok(0));
    device.reset_graph_memory_peaks().unwrap();
    let GraphMemoryUsage { used, used_high, reserved, reserved_high } = device.graph_memory_usage().unwrap();
    assert_eq!((used_high, reserved_high), (used, reserved));
}

#[test]
fn f9_a_driver_without_graph_memory_says_so() {
    let fixture = Fixture::with(cupool_sim::Simulator::builder().driver_version(11030));
    let device = fixture.device();
    assert_eq!(device.graph_memory_usage(), Err(Error::Unsupported(Symbol::cuDeviceGetGraphMemAttribute)));
    assert_eq!(device.reset_graph_memory_peaks(), Err(Error::Unsupported(Symbol::cuDeviceSetGraphMemAttribute)));
    assert_eq!(device.trim_graph_memory(), Err(Error::Unsupported(Symbol::cuDeviceGetGraphMemAttribute)));
}

#[test]
fn f15_a_soft_limit_refuses_what_would_pass_it_and_says_so() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    assert_eq!(pool.soft_limit(), None);
    pool.set_soft_limit(Some(1000));
    assert_eq!(pool.soft_limit(), Some(1000));
    let kept = pool.alloc::<u8, _>(600, &stream).unwrap();
    let error = pool.alloc::<u8, _>(401, &stream).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    let details = out_of_memory(error);
    assert_eq!((details.requested, details.soft_limit, details.rescue), (401, Some(1000), Rescue::SoftLimit));
    assert_eq!(details.usage.unwrap().used, 600);
    // To the byte.
    drop(pool.alloc::<u8, _>(400, &stream).unwrap());
    assert!(pool.alloc::<u8, _>(usize::MAX, &stream).is_err());
    // Nobody need wait for the memory of what was dropped.
    let gate = Gate::on(&fixture, &stream);
    drop(kept);
    drop(pool.alloc::<u8, _>(1000, &stream).unwrap());
    gate.open();
    pool.set_soft_limit(None);
    drop(pool.alloc::<u8, _>(2000, &stream).unwrap());
}

#[test]
fn f15_nothing_needs_room_under_a_soft_limit_of_nothing() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_soft_limit(Some(0));
    drop(pool.alloc::<u8, _>(0, &stream).unwrap());
    assert!(pool.alloc::<u8, _>(1, &stream).is_err());
    pool.set_soft_limit(Some(u64::MAX));
    assert_eq!(pool.soft_limit(), None, "that is no limit");
    drop(pool.alloc::<u8, _>(1, &stream).unwrap());
}

#[test]
fn f15_a_soft_limit_is_that_pools_alone_and_ends_with_it() {
    let fixture = Fixture::simulated();
    let (limited, other, stream) = (fixture.pool(), fixture.pool(), fixture.stream());
    limited.set_soft_limit(Some(10));
    let once = [Symbol::cuMemAllocFromPoolAsync];
    // The other one is not asked anything, whatever the process's state.
    drop(fixture.expect_calls(&once, || other.alloc::<u8, _>(1000, &stream).unwrap()));
    let exchange = Symbol::cuThreadExchangeStreamCaptureMode;
    let asked = [exchange, Symbol::cuMemPoolGetAttribute, Symbol::cuMemAllocFromPoolAsync, exchange];
    drop(fixture.expect_calls(&asked, || limited.alloc::<u8, _>(10, &stream).unwrap()));
    limited.set_soft_limit(Some(20));
    drop(fixture.expect_calls(&asked, || limited.alloc::<u8, _>(20, &stream).unwrap()));
    limited.set_soft_limit(None);
    drop(fixture.expect_calls(&once, || limited.alloc::<u8, _>(1000, &stream).unwrap()));
    // Given up and taken over again, it has none.
    limited.set_soft_limit(Some(10));
    let raw = limited.into_raw();
    // SAFETY: the pool was just given up.
    let limited = unsafe { MemPool::from_raw(fixture.device(), raw) };
    assert_eq!(limited.soft_limit(), None);
    drop(fixture.expect_calls(&once, || limited.alloc::<u8, _>(1000, &stream).unwrap()));
}

#[test]
fn f15_a_borrowed_pool_can_be_limited_for_those_who_borrow_it() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    // SAFETY: the pool outlives what borrows it.
    let borrowed = unsafe { MemPoolRef::borrow_raw(fixture.device(), pool.as_raw()) };
    borrowed.set_soft_limit(Some(1000));
    let _owners = pool.alloc::<u8, _>(900, &stream).unwrap();
    assert!(borrowed.alloc::<u8, _>(101, &stream).is_err(), "all that is used counts");
    drop(borrowed.alloc::<u8, _>(100, &stream).unwrap());
    drop(pool.alloc::<u8, _>(101, &stream).unwrap());
    let default = MemPool::default_of(&fixture.device()).unwrap();
    default.set_soft_limit(Some(0));
    assert!(default.alloc::<u8, _>(1, &stream).is_err());
    assert_eq!(MemPool::default_of(&fixture.device()).unwrap().soft_limit(), None);
}

#[test]
fn f15_threads_together_never_pass_a_soft_limit() {
    const LIMIT: u64 = 10_000;
    let fixture = Fixture::alone();
    let pool = fixture.pool();
    let refused = AtomicU64::new(0);
    pool.set_soft_limit(Some(LIMIT));
    thread::scope(|scope| {
        for thread in 0..4_usize {
            let (fixture, pool, refused) = (&fixture, &pool, &refused);
            scope.spawn(move || {
                let stream = fixture.stream();
                let mut kept = Vec::new();
                for step in 0..200 {
                    match pool.alloc::<u8, _>(100 + 37 * ((step + thread) % 11), &stream) {
                        Ok(buffer) => kept.push(buffer),
                        Err(Error::OutOfMemory(details)) => {
                            assert_eq!(details.rescue, Rescue::SoftLimit);
                            refused.fetch_add(1, Ordering::Relaxed);
                            kept.clear();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let usage = pool.usage().unwrap();
    assert!(usage.used_high <= LIMIT, "{usage:?}");
    assert!(usage.used_high > LIMIT / 2 && refused.into_inner() > 0, "it was never near: {usage:?}");
    assert_eq!(usage.used, 0);
}

#[test]
fn f15_a_soft_limit_that_cannot_be_checked_refuses() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_soft_limit(Some(1000));
    fixture.sim().fail(Symbol::cuMemPoolGetAttribute, 0, CUresult::CUDA_ERROR_UNKNOWN);
    let error = pool.alloc::<u8, _>(1, &stream).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_UNKNOWN));
    drop(pool.alloc::<u8, _>(1, &stream).unwrap());
}

#[test]
fn f4_below_a_soft_limit_an_allocation_that_does_not_fit_is_rescued_as_ever() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_soft_limit(Some(1 << 30));
    fixture.sim().fail(Symbol::cuMemAllocFromPoolAsync, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    drop(pool.alloc::<u8, _>(100, &stream).unwrap());
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolTrimTo), 1);
    let details = out_of_memory(pool.alloc::<u8, _>(8 * POOL_SIZE, &stream).unwrap_err());
    assert_eq!((details.rescue, details.soft_limit), (Rescue::Tried, Some(1 << 30)));
}

#[test]
fn f5_a_soft_limit_neither_waits_nor_trims() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_soft_limit(Some(10));
    let before = fixture.sim().calls().len();
    assert!(pool.alloc::<u8, _>(100, &stream).is_err());
    let calls = fixture.sim().calls().split_off(before);
    let waits = [Symbol::cuStreamSynchronize, Symbol::cuMemPoolTrimTo, Symbol::cuMemAllocFromPoolAsync];
    assert!(calls.iter().all(|call| !waits.contains(call)), "{calls:?}");
}

#[test]
fn f14_a_pool_too_large_for_the_addresses_there_are_fails_and_a_smaller_one_can_be_tried() {
    let fixture = Fixture::new();
    let device = fixture.device();
    let make = |max_size| MemPool::with_properties(&device, &MemPoolProperties::new().max_size(max_size));
    // More than a 64-bit machine can address.
    let error = make(1 << 60).unwrap_err();
    assert!(error.code().is_some() && !error.is_sticky(), "{error}");
    let mut size = 1_usize << 60;
    let pool = loop {
        match make(size) {
            Ok(pool) => break pool,
            Err(error) => assert!(size > 1 << 20, "{error}"),
        }
        size /= 2;
    };
    drop(pool.alloc::<u8, _>(100, fixture.stream()).unwrap());
}

#[test]
fn f25_after_an_allocation_that_did_not_fit_whatever_is_freed_can_be_had() {
    let fixture = Fixture::alone();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    for round in 0..3 {
        let mut all = pool.alloc::<u8, _>(48 * MIB, &other).unwrap();
        all.fill(1).unwrap();
        let details = out_of_memory(pool.alloc::<u8, _>(48 * MIB, &stream).unwrap_err());
        let used = details.usage.map(|usage| usage.used);
        assert_eq!((details.rescue, used), (Rescue::Tried, Some(48 << 20)), "round {round}");
        drop(all);
        other.synchronize().unwrap();
        // Neither the failure nor the rescue is in the way.
        pool.trim_to(0).unwrap();
        drop(pool.alloc::<u8, _>(48 * MIB, &stream).unwrap());
        stream.synchronize().unwrap();
    }
}

#[test]
fn f25_a_fault_of_a_wait_is_not_taken_for_want_of_memory() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.sim().fail(Symbol::cuStreamSynchronize, 0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let error = pool.trim_after(&stream, 0).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolTrimTo), 0);
    drop(pool.alloc::<u8, _>(100, &stream).unwrap());
}

#[test]
fn f27_the_soft_limit_is_named_where_it_refuses() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_soft_limit(Some(1500));
    let _kept = pool.alloc::<u8, _>(1000, &stream).unwrap();
    assert_eq!(
        pool.alloc::<u8, _>(600, &stream).unwrap_err().to_string(),
        "out of memory: 600 bytes requested; the pool uses 1000 of the 33554432 bytes it holds; its limit is 67108864; \
         its soft limit on what is used is 1500; the soft limit refused it, and only freeing buffers makes room"
    );
    pool.set_soft_limit(Some(1 << 40));
    let text = pool.alloc::<u8, _>(2 * POOL_SIZE, &stream).unwrap_err().to_string();
    assert!(text.contains("its soft limit on what is used is 1099511627776; the device has"), "{text}");
}

#[test]
fn f18_pools_with_live_buffers_and_pending_frees_may_end_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let fixture = Fixture::alone();
        let (stream, other) = (fixture.shared_stream(), fixture.shared_stream());
        let pools: Vec<MemPool> = (0..3).map(|_| fixture.pool()).collect();
        let buffers: Vec<Buffer<u8>> = pools
            .iter()
            .map(|pool| {
                drop(pool.alloc_zeroed::<u8, _>(1000, Arc::clone(&other)).unwrap());
                pool.alloc(1000, Arc::clone(&stream)).unwrap()
            })
            .collect();
        let gate = Gate::on(&fixture, &stream);
        let (mut pools, mut buffers): (Vec<_>, Vec<_>) =
            (pools.into_iter().map(Some).collect(), buffers.into_iter().map(Some).collect());
        for (step, at) in order.into_iter().enumerate() {
            if let Some(buffer) = &mut buffers[at] {
                buffer.fill(at as u8).unwrap();
            }
            pools[at] = None;
            if step == 1 {
                // A free that is still to come when its pool ends, and one that comes after.
                buffers[order[0]] = None;
            }
        }
        gate.open();
        for at in [order[1], order[2]] {
            assert_eq!(buffers[at].take().unwrap().to_vec().unwrap(), [at as u8; 1000]);
        }
        for stream in [&stream, &other] {
            stream.synchronize().unwrap();
        }
        // The simulated driver must have found nothing wrong, and hold nothing.
    }
}
