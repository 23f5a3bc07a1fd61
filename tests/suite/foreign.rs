//! Buffers over memory that somebody else allocated: used like ours, and let go of only when the device is done.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use cupool::{
    Buffer, Error, ForeignBuffer, MemPool, Stream, StreamHandle, cuda_sys::CUstreamCaptureMode, recent_release_failures,
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, assert_no_findings},
    gate::Gate,
};

/// Stands for another library's array: it frees its memory at once when it is dropped, and tells how many were.
struct Theirs {
    memory: Option<Buffer<u32>>,
    dropped: Arc<AtomicUsize>,
}

impl Theirs {
    /// Memory that is ready, on a stream that has nothing else to do: to free it there is to free it at once.
    fn new(fixture: &Fixture, pool: &MemPool, dropped: &Arc<AtomicUsize>) -> Self {
        let memory = pool.alloc_zeroed::<u32, _>(LEN, fixture.shared_stream()).unwrap();
        memory.home().synchronize().unwrap();
        Self { memory: Some(memory), dropped: Arc::clone(dropped) }
    }

    /// At home on `stream` from now on.
    fn lend<S: StreamHandle>(self, stream: S) -> ForeignBuffer<u32, Self, S> {
        let address = self.memory.as_ref().unwrap().as_raw();
        // SAFETY: the memory is this owner's, who does nothing with it, and was ready before.
        unsafe { ForeignBuffer::new(address, LEN, stream, self) }.map_err(|(error, _)| error).unwrap()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.memory.take();
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

const LEN: usize = 1000;

#[test]
fn foreign_memory_is_used_as_a_buffer_is() {
    let fixture = Fixture::new();
    let (pool, stream, other, dropped) = (fixture.pool(), fixture.stream(), fixture.stream(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    assert_eq!((ours.len(), ours.is_empty(), ours.byte_len()), (LEN, false, 4 * LEN));
    assert!(ours.home().is_same(&stream));
    assert_eq!(ours.owner().memory.as_ref().unwrap().as_raw(), ours.as_raw());
    ours.as_mut_slice().fill(1).unwrap();
    ours.on(&other).unwrap().as_mut_slice().slice(10..).unwrap().fill(2).unwrap();
    let mut copy = pool.alloc::<u32, _>(LEN, &other).unwrap();
    copy.copy_from(ours.as_slice()).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [vec![1; 10], vec![2; LEN - 10]].concat());
    let read = ours.read_on(&other).unwrap();
    copy.as_mut_slice().copy_from(read.as_slice()).unwrap();
    drop(read);
    assert_eq!(ours.to_vec().unwrap(), copy.to_vec().unwrap());
    drop(ours);
    stream.context().drop_retired().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn an_owner_is_kept_until_the_device_is_done_and_nobody_waits() {
    let fixture = Fixture::alone();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    let mut gate = Some(Gate::on(&fixture, &stream));
    ours.as_mut_slice().fill(1).unwrap();
    if fixture.simulator().is_some() {
        // To be asked makes the simulated driver work, which the gate would hold up.
        gate.take();
    }
    drop(ours);
    if let Some(gate) = gate {
        fixture.assert_pending(&stream);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        gate.open();
    }
    stream.context().drop_retired().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn e2_work_on_foreign_memory_is_never_overtaken_by_its_owners_end() {
    for seed in 0..50 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
        let mut result = pool.alloc::<u32, _>(LEN, &stream).unwrap();
        for value in 0..5 {
            let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
            ours.as_mut_slice().fill(value).unwrap();
            result.copy_from(ours.as_slice()).unwrap();
        }
        assert_eq!(result.to_vec().unwrap(), [4; LEN]);
        stream.context().drop_retired().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 5);
    }
}

#[test]
fn owners_whose_work_is_not_known_to_be_done_are_waited_for() {
    for seed in 0..20 {
        for by_the_end in [false, true] {
            let fixture = Fixture::with(Simulator::builder().seed(seed));
            // With the last of the context its work would go too.
            let kept = fixture.context();
            let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
            fixture.sim().fail_every(Symbol::cuEventQuery, CUresult::CUDA_ERROR_NOT_READY);
            for value in 0..3 {
                let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
                ours.as_mut_slice().fill(value).unwrap();
            }
            assert_eq!(dropped.load(Ordering::Relaxed), 0);
            if !by_the_end {
                assert_eq!(stream.context().drop_retired(), Ok(3));
            }
            drop(stream);
            assert_eq!(dropped.load(Ordering::Relaxed), 3);
            kept.synchronize().unwrap();
        }
    }
}

#[test]
fn without_the_mark_the_owner_would_go_too_early() {
    let fixture = Fixture::unchecked();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    fixture.sim().ignore_every(Symbol::cuEventRecord);
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    ours.as_mut_slice().fill(1).unwrap();
    drop(ours);
    stream.context().drop_retired().unwrap();
    stream.context().synchronize().unwrap();
    assert!(!fixture.sim().findings().is_empty());
}

#[test]
fn dropping_marks_the_stream_and_asks_once() {
    let fixture = Fixture::simulated();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    let exchange = Symbol::cuThreadExchangeStreamCaptureMode;
    let marked = [Symbol::cuStreamIsCapturing, Symbol::cuEventRecord, exchange, Symbol::cuEventQuery, exchange];
    let theirs = Theirs::new(&fixture, &pool, &dropped);
    let made = [Symbol::cuCtxPushCurrent, Symbol::cuEventCreate, Symbol::cuCtxPopCurrent];
    let ours = fixture.expect_calls(&made, || theirs.lend(&stream));
    let (_, calls) = fixture.calls_of(|| drop(ours));
    assert_eq!(calls[..marked.len()], marked);
    assert_eq!(calls.iter().filter(|call| **call == Symbol::cuStreamSynchronize).count(), 0);
    // The next one uses the same event.
    let theirs = Theirs::new(&fixture, &pool, &dropped);
    stream.context().drop_retired().unwrap();
    drop(fixture.expect_calls(&[], || theirs.lend(&stream)));
}

#[test]
fn owners_go_while_others_come_so_that_few_are_ever_kept() {
    let fixture = Fixture::new();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    for round in 1..=200 {
        let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
        ours.as_mut_slice().fill(round).unwrap();
        drop(ours);
        stream.synchronize().unwrap();
    }
    assert!(dropped.load(Ordering::Relaxed) >= 190, "{dropped:?}");
    let kept = stream.context().drop_retired().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 200);
    assert!(kept <= 10, "{kept}");
}

#[test]
fn the_end_of_a_context_waits_for_the_work_and_drops_the_owners() {
    let fixture = Fixture::new();
    let (pool, dropped) = (fixture.pool(), Arc::default());
    let stream = fixture.stream();
    for value in 0..3 {
        let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
        ours.as_mut_slice().fill(value).unwrap();
    }
    drop(stream);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

#[test]
fn a_buffer_that_holds_the_last_of_its_stream_ends_both() {
    let fixture = Fixture::new();
    let (pool, dropped) = (fixture.pool(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(fixture.shared_stream());
    ours.as_mut_slice().fill(1).unwrap();
    drop(ours);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(fixture.stream());
    ours.as_mut_slice().fill(1).unwrap();
    thread::spawn(|| drop(ours)).join().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[test]
fn the_owner_comes_back_after_the_work() {
    let fixture = Fixture::new();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    ours.as_mut_slice().fill(9).unwrap();
    let mut theirs = ours.into_owner().map_err(|(error, _)| error).unwrap();
    assert_eq!(theirs.memory.take().unwrap().to_vec().unwrap(), [9; LEN]);
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}

#[test]
fn an_owner_that_frees_in_order_is_called_with_the_home_stream() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let (address, len, _) = pool.alloc_zeroed::<u8, _>(LEN, &stream).unwrap().into_raw_parts();
    let free = |home: &Stream| {
        assert!(home.is_same(&stream));
        // SAFETY: the parts of the buffer above, which nobody uses after this point of its stream.
        unsafe { Buffer::<u8, _>::from_raw_parts(address, len, home) }.free().unwrap();
    };
    // SAFETY: as above; `free` frees in the order of the stream that it is given.
    let ours = unsafe { ForeignBuffer::<u8, _, _>::with_release(address, len, &stream, free) };
    let mut ours = ours.map_err(|(error, _)| error).unwrap();
    ours.as_mut_slice().fill(1).unwrap();
    match fixture.simulator() {
        Some(_) => fixture.expect_calls(&[Symbol::cuMemFreeAsync], || drop(ours)),
        None => drop(ours),
    }
    stream.synchronize().unwrap();
}

#[test]
fn e7_memory_that_cannot_be_there_is_refused_and_its_owner_comes_back() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let refused = |address, len| {
        // SAFETY: nothing is done with what is made of it.
        let (error, owner) = unsafe { ForeignBuffer::<u32, _, _>::new(address, len, &stream, 7) }.unwrap_err();
        assert_eq!(owner, 7);
        // SAFETY: as above.
        let release = unsafe { ForeignBuffer::<u32, _, _>::with_release(address, len, &stream, |_: &Stream| {}) };
        assert_eq!(release.err().map(|(error, _)| error), Some(error.clone()));
        error
    };
    assert_eq!(refused(0, 1), Error::NullAddress);
    assert_eq!(refused(0x1002, 1), Error::Misaligned { address: 0x1002, align: 4 });
    assert_eq!(refused(0x1000, usize::MAX), Error::SizeOverflow { len: usize::MAX, size: 4 });
    assert_eq!(refused(u64::MAX - 7, 2), Error::SizeOverflow { len: 2, size: 4 });
}

#[test]
fn h1_no_elements_have_an_owner_too_who_goes_at_once() {
    let fixture = Fixture::new();
    let (stream, owner) = (fixture.stream(), Arc::new(()));
    // SAFETY: no memory is said to be there.
    let mut none = unsafe { ForeignBuffer::<u32, _, _>::new(3, 0, &stream, Arc::clone(&owner)) }.unwrap();
    assert_eq!((none.len(), none.as_raw(), none.to_vec()), (0, 0, Ok(vec![])));
    none.as_mut_slice().fill(1).unwrap();
    drop(none);
    assert_eq!(Arc::strong_count(&owner), 1);
    // SAFETY: as above.
    let none = unsafe { ForeignBuffer::<u32, _, _>::new(0, 0, &stream, owner) }.unwrap();
    assert_eq!(Arc::strong_count(&none.into_owner().map_err(|(error, _)| error).unwrap()), 1);
}

/// Drops foreign memory with work enqueued on it while `fail` makes calls fail; says whether its owner was dropped.
fn dropped_with(fail: impl FnOnce(&Fixture)) -> bool {
    let fixture = Fixture::unchecked();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    ours.as_mut_slice().fill(1).unwrap();
    fail(&fixture);
    drop(ours);
    let before = dropped.load(Ordering::Relaxed) == 1;
    fixture.sim().clear_faults();
    let _ = stream.context().drop_retired();
    let after = dropped.load(Ordering::Relaxed) == 1;
    drop(stream);
    assert_no_findings(fixture.sim());
    assert_eq!(before, after, "what is not dropped is given up");
    after
}

#[test]
fn what_cannot_be_marked_is_waited_for() {
    let unknown = CUresult::CUDA_ERROR_UNKNOWN;
    assert!(dropped_with(|fixture| fixture.sim().fail(Symbol::cuEventRecord, 0, unknown)));
    assert!(dropped_with(|fixture| fixture.sim().fail(Symbol::cuStreamIsCapturing, 0, unknown)));
    assert!(dropped_with(|fixture| {
        fixture.sim().fail(Symbol::cuEventRecord, 0, unknown);
        fixture.sim().fail(Symbol::cuStreamSynchronize, 0, unknown);
    }));
}

#[test]
fn what_can_neither_be_marked_nor_waited_for_is_given_up() {
    assert!(!dropped_with(|fixture| {
        for call in [Symbol::cuEventRecord, Symbol::cuStreamSynchronize, Symbol::cuCtxSynchronize] {
            fixture.sim().fail_every(call, CUresult::CUDA_ERROR_UNKNOWN);
        }
    }));
    assert!(!dropped_with(|fixture| fixture.sim().fail_from(0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)));
}

#[test]
fn c1_an_owner_goes_with_the_driver_and_with_the_context() {
    assert!(dropped_with(|fixture| fixture.sim().shut_down()));
    assert!(dropped_with(|fixture| fixture.sim().reset_device(0)));
}

#[test]
fn d11_a_forgotten_loan_gives_the_owner_up() {
    let fixture = Fixture::unchecked();
    let (pool, stream, other, dropped) = (fixture.pool(), fixture.stream(), fixture.stream(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    core::mem::forget(ours.on(&other).unwrap());
    assert_eq!(ours.to_vec(), Err(Error::LoanForgotten));
    let Err((error, ours)) = ours.into_owner() else { panic!("the owner was given back") };
    assert_eq!(error, Error::LoanForgotten);
    drop(ours);
    stream.context().drop_retired().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    let live = fixture.sim().live();
    assert_eq!(live.allocations, 1);
    assert_no_findings(fixture.sim());
}

#[test]
fn g3_an_owner_whose_stream_is_being_captured_is_given_up_and_the_capture_survives() {
    let fixture = Fixture::unchecked();
    let (pool, stream, dropped) = (fixture.pool(), fixture.stream(), Arc::default());
    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
    let functions = stream.driver().functions();
    let begin = functions.cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    ours.as_mut_slice().fill(1).unwrap();
    let Err((error, ours)) = ours.into_owner() else { panic!("the owner was given back") };
    assert_eq!(error, Error::StreamCapturing);
    drop(ours);
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live and captures; the call writes one handle.
    let code = unsafe { functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    assert_no_findings(fixture.sim());
}

#[test]
fn c2_a_panic_of_an_owner_is_counted_and_goes_no_further() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }

    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let memory = pool.alloc_zeroed::<u32, _>(LEN, &stream).unwrap();
    // SAFETY: the memory outlives what is made of it.
    drop(unsafe { ForeignBuffer::<u32, _, _>::new(memory.as_raw(), LEN, &stream, Panics) }.map_err(|_| ()).unwrap());
    stream.context().drop_retired().unwrap();
    // SAFETY: as above.
    drop(unsafe { ForeignBuffer::<u32, _, _>::new(0, 0, &stream, Panics) }.map_err(|_| ()).unwrap());
    let release = |_: &Stream| std::panic::resume_unwind(Box::new("on purpose"));
    // SAFETY: as above.
    let ours = unsafe { ForeignBuffer::<u32, _, _>::with_release(memory.as_raw(), LEN, &stream, release) };
    drop(ours.map_err(|_| ()).unwrap());
    let panics = recent_release_failures().iter().filter(|error| **error == Error::OwnerPanicked).count();
    assert!(panics >= 3, "{panics}");
}

#[test]
fn an_owner_that_drops_foreign_memory_itself_holds_nobody_up() {
    let fixture = Fixture::new();
    let (pool, stream, dropped) = (fixture.pool(), fixture.shared_stream(), Arc::default());
    let inner = Theirs::new(&fixture, &pool, &dropped).lend(Arc::clone(&stream));
    let address = inner.as_raw();
    // SAFETY: the memory is the inner buffer's, which does nothing with it.
    let outer = unsafe { ForeignBuffer::<u32, _, _>::new(address, LEN, &*stream, inner) }.map_err(|(error, _)| error);
    drop(outer.unwrap());
    while stream.context().drop_retired().unwrap() > 0 {}
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn owners_are_retired_from_many_threads() {
    let fixture = Fixture::new();
    let (pool, dropped) = (fixture.pool(), Arc::default());
    let context = fixture.context();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = Stream::new(&context).unwrap();
                for value in 0..20 {
                    let mut ours = Theirs::new(&fixture, &pool, &dropped).lend(&stream);
                    ours.as_mut_slice().fill(value).unwrap();
                }
                context.drop_retired().unwrap();
            });
        }
    });
    context.drop_retired().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 80);
}

#[test]
fn owners_that_drop_foreign_memory_themselves_go_one_after_the_other_however_many_wait() {
    let fixture = Fixture::simulated();
    let (simulator, pool, stream) = (fixture.sim(), fixture.pool(), fixture.shared_stream());
    let memory = pool.alloc_zeroed::<u32, _>(LEN, Arc::clone(&stream)).unwrap();
    let outer = || {
        // SAFETY: the memory outlives both, and is at home on the same stream.
        unsafe {
            let inner = ForeignBuffer::<u32, _, _>::new(memory.as_raw(), LEN, Arc::clone(&stream), ());
            let inner = inner.map_err(|(error, ())| error).unwrap();
            let outer = ForeignBuffer::<u32, _, _>::new(memory.as_raw(), LEN, Arc::clone(&stream), inner);
            outer.map_err(|(error, _)| error).unwrap()
        }
    };
    // Many wait, and then the device is done with all of them.
    simulator.fail_every(Symbol::cuEventQuery, CUresult::CUDA_ERROR_NOT_READY);
    (0..20_000).for_each(|_| drop(outer()));
    simulator.clear_faults();
    stream.synchronize().unwrap();
    drop(outer());
    while stream.context().drop_retired().unwrap() > 0 {}
}
