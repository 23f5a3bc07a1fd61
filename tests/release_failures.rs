//! The process-wide count of releases that failed, the last of them, and the hook: in a process of their own, and in
//! one test after the other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

use std::{
    cell::Cell,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
};

use cupool::{
    Device, Driver, Error, Event, MemPool, MemPoolProperties, Stream, recent_release_failures, release_failures,
    set_release_hook,
};
use cupool_sim::{CUresult, Simulator, Symbol};

/// One test at a time, since all count together.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn driver(simulator: &Simulator) -> Driver {
    // SAFETY: every entry behaves as the driver's, and answers that the driver has shut down once the simulator is
    // dropped.
    unsafe { Driver::from_functions(simulator.functions()) }
}

fn stream_and_pool(simulator: &Simulator) -> (Stream, MemPool) {
    let device = driver(simulator).device(0).unwrap();
    let properties = MemPoolProperties::new().max_size(64 << 20);
    let pool = MemPool::with_properties(&device, &properties).unwrap();
    (Stream::new(&device.primary_context().unwrap()).unwrap(), pool)
}

/// How many failures `work` adds.
fn counted(work: impl FnOnce()) -> u64 {
    let before = release_failures();
    work();
    release_failures() - before
}

#[test]
fn c4_each_kind_of_release_that_fails_is_counted_once_and_remembered() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    let context = stream.context().try_clone().unwrap();
    let releases: [(Symbol, &dyn Fn()); 5] = [
        (Symbol::cuMemFreeAsync, &|| drop(pool.alloc::<u8, _>(10, &stream).unwrap())),
        (Symbol::cuStreamDestroy, &|| drop(Stream::new(&context).unwrap())),
        (Symbol::cuEventDestroy, &|| drop(Event::new(&context).unwrap())),
        (Symbol::cuDevicePrimaryCtxRelease, &|| drop(context.device().primary_context().unwrap())),
        (Symbol::cuCtxPopCurrent, &|| context.synchronize().unwrap()),
    ];
    for (symbol, release) in releases {
        simulator.fail(symbol, 0, CUresult(9999));
        assert_eq!(counted(release), 1, "{symbol:?}");
        let last = recent_release_failures().pop().unwrap();
        let Error::Driver(error) = last else { panic!("{last:?}") };
        assert_eq!((error.call(), error.code()), (symbol, CUresult(9999)));
        assert_eq!(counted(release), 0, "{symbol:?}");
    }
    // The pool itself waits for what was never freed.
    assert_eq!(counted(|| drop(pool)), 0);
    let another = MemPool::new(&context.device()).unwrap();
    simulator.fail(Symbol::cuMemPoolDestroy, 0, CUresult(9999));
    assert_eq!(counted(|| drop(another)), 1);
}

#[test]
fn c4_what_is_reported_to_the_caller_is_not_counted() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(1));
    let buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
    assert_eq!(counted(|| assert!(buffer.free().is_err())), 0);
    simulator.fail(Symbol::cuStreamSynchronize, 0, CUresult(1));
    assert_eq!(counted(|| assert!(stream.synchronize().is_err())), 0);
}

#[test]
fn c1_a_driver_that_has_shut_down_and_a_context_that_is_gone_are_no_failures() {
    let _alone = alone();
    for code in [CUresult::CUDA_ERROR_DEINITIALIZED, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED] {
        let simulator = Simulator::new();
        let (stream, pool) = stream_and_pool(&simulator);
        let buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
        let event = Event::new(stream.context()).unwrap();
        simulator.fail_from(0, code);
        assert_eq!(counted(|| drop((buffer, event, pool))), 0);
        assert_eq!(counted(|| drop(stream)), 0);
    }
    // As these codes come about.
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    let buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
    let event = Event::new(stream.context()).unwrap();
    simulator.reset_device(0);
    assert_eq!(counted(|| drop((buffer, event))), 0);
    simulator.shut_down();
    assert_eq!(counted(|| drop((pool, stream))), 0);
}

#[test]
fn c1_a_loan_that_ends_after_the_driver_shut_down_is_no_failure_nor_is_its_buffers_end() {
    let _alone = alone();
    for code in [CUresult::CUDA_ERROR_DEINITIALIZED, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED] {
        let simulator = Simulator::new();
        let (home, pool) = stream_and_pool(&simulator);
        let other = Stream::new(home.context()).unwrap();
        let mut lent = pool.alloc_zeroed::<u8, _>(10, &home).unwrap();
        let read = pool.alloc_zeroed::<u8, _>(10, &home).unwrap();
        let loans = (lent.on(&other).unwrap(), read.read_on(&other).unwrap());
        simulator.fail_from(0, code);
        assert_eq!(counted(|| drop(loans)), 0);
        assert_eq!(counted(|| drop((lent, read))), 0, "{:?}", recent_release_failures().last());
    }
}

#[test]
fn d11_a_forgotten_loan_is_counted_when_its_memory_is_given_up() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (home, pool) = stream_and_pool(&simulator);
    let other = Stream::new(home.context()).unwrap();
    let buffer = pool.alloc_zeroed::<u8, _>(10, &home).unwrap();
    assert_eq!(counted(|| core::mem::forget(buffer.read_on(&other).unwrap())), 0);
    assert_eq!(counted(|| drop(buffer)), 1);
    assert_eq!(recent_release_failures().last(), Some(&Error::LoanForgotten));
}

#[test]
fn b3_a_missing_context_is_a_failure() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    assert_eq!(counted(|| drop(pool.alloc::<u8, _>(10, &stream).unwrap())), 1);
}

#[test]
fn c4_the_last_sixteen_are_remembered_oldest_first() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    for code in 5000..5020 {
        simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(code));
        drop(pool.alloc::<u8, _>(10, &stream).unwrap());
    }
    let codes: Vec<u32> = recent_release_failures().iter().map(|error| error.code().unwrap().0).collect();
    assert_eq!(codes, (5004..5020).collect::<Vec<u32>>());
}

static HOOKED: Mutex<Vec<(Error, ThreadId)>> = Mutex::new(Vec::new());

fn remember(error: &Error) {
    HOOKED.lock().unwrap().push((error.clone(), thread::current().id()));
}

#[test]
fn c4_the_hook_is_called_on_the_thread_that_dropped() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    assert!(set_release_hook(Some(remember)).is_none());
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(77));
    thread::scope(|scope| {
        let buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
        let thread = scope.spawn(move || drop(buffer)).thread().id();
        while HOOKED.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        let hooked = HOOKED.lock().unwrap().pop().unwrap();
        assert_eq!((hooked.0.code(), hooked.1), (Some(CUresult(77)), thread));
    });
    // What is no failure is not told to it, nor what was told to the caller.
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult::CUDA_ERROR_DEINITIALIZED);
    drop(pool.alloc::<u8, _>(10, &stream).unwrap());
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(77));
    assert!(pool.alloc::<u8, _>(10, &stream).unwrap().free().is_err());
    assert!(HOOKED.lock().unwrap().is_empty());
    assert!(set_release_hook(None).is_some());
}

static CALLED: AtomicU64 = AtomicU64::new(0);

#[test]
fn c2_a_hook_that_panics_is_cut_off() {
    fn panics(_: &Error) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("on purpose"));
    }
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    let before = set_release_hook(Some(panics));
    let called = CALLED.load(Ordering::Relaxed);
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(77));
    assert_eq!(counted(|| drop(pool.alloc::<u8, _>(10, &stream).unwrap())), 1);
    // Also where another panic is under way already.
    simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(78));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
        std::panic::resume_unwind(Box::new(12_u8));
    }));
    assert_eq!(unwound.map(|never: ()| never).unwrap_err().downcast_ref(), Some(&12_u8));
    assert_eq!(CALLED.load(Ordering::Relaxed) - called, 2);
    set_release_hook(before);
}

#[test]
fn a_hook_may_use_the_driver_and_replace_itself() {
    fn replaces(_: &Error) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        set_release_hook(None);
        assert!(!recent_release_failures().len() > 16);
    }
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, pool) = stream_and_pool(&simulator);
    set_release_hook(Some(replaces));
    let before = CALLED.load(Ordering::Relaxed);
    for _ in 0..2 {
        simulator.fail(Symbol::cuMemFreeAsync, 0, CUresult(77));
        drop(pool.alloc::<u8, _>(10, &stream).unwrap());
    }
    assert_eq!(CALLED.load(Ordering::Relaxed) - before, 1);
    assert!(set_release_hook(None).is_none());
}

#[test]
fn a_hook_may_use_what_the_failed_call_was_about() {
    thread_local!(static DEVICE: Cell<Option<Device>> = const { Cell::new(None) });
    fn uses(_: &Error) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        let device = DEVICE.get().unwrap();
        let mut pool = MemPool::new(&device).unwrap();
        drop(pool.make_current());
        drop(MemPool::raise_default_threshold(&device, 5));
        pool.set_soft_limit(Some(1));
    }
    let _alone = alone();
    let simulator = Simulator::new();
    let (stream, mut pool) = stream_and_pool(&simulator);
    let device = pool.device();
    DEVICE.set(Some(device));
    set_release_hook(Some(uses));
    let hooked = |work: &mut dyn FnMut()| {
        let before = CALLED.load(Ordering::Relaxed);
        work();
        CALLED.load(Ordering::Relaxed) - before
    };
    let fails = |symbol, at| simulator.fail(symbol, at, CUresult(77));
    let (exchange, limit) = (Symbol::cuThreadExchangeStreamCaptureMode, 100);
    pool.set_soft_limit(Some(limit));
    fails(exchange, 1);
    assert_eq!(hooked(&mut || drop(pool.alloc::<u8, _>(10, &stream).unwrap())), 1);
    fails(exchange, 1);
    assert_eq!(hooked(&mut || drop(MemPool::raise_default_threshold(&device, 9).unwrap())), 1);
    fails(exchange, 1);
    assert_eq!(hooked(&mut || drop(pool.make_current().unwrap())), 1);
    // Whichever change of the mode it is, the guard's end included.
    for (at, calls) in [0, 1, 0, 1].into_iter().enumerate() {
        fails(exchange, u64::try_from(at).unwrap());
        assert_eq!(hooked(&mut || drop(pool.make_current().unwrap())), calls, "{at}");
    }
    fails(Symbol::cuMemPoolSetAttribute, 1);
    assert_eq!(hooked(&mut || drop(MemPool::raise_default_threshold(&device, 9).unwrap())), 1);
    fails(Symbol::cuDeviceSetMemPool, 1);
    assert_eq!(hooked(&mut || drop(pool.make_current().unwrap())), 1);
    set_release_hook(None);
}

#[test]
fn memory_that_lost_its_order_is_counted_when_it_is_lost_and_when_it_is_leaked() {
    let _alone = alone();
    let simulator = Simulator::new();
    let (first, pool) = stream_and_pool(&simulator);
    let second = Stream::new(first.context()).unwrap();
    let source = pool.alloc_zeroed::<u8, _>(10, &first).unwrap();
    let mut target = pool.alloc_zeroed::<u8, _>(10, &second).unwrap();
    simulator.fail(Symbol::cuStreamWaitEvent, 1, CUresult(999));
    simulator.fail(Symbol::cuStreamSynchronize, 0, CUresult(999));
    simulator.fail(Symbol::cuCtxSynchronize, 0, CUresult(999));
    assert_eq!(counted(|| assert!(target.copy_from(source.as_slice()).is_err())), 1);
    assert_eq!(counted(|| drop(source)), 1);
    assert_eq!(recent_release_failures().last(), Some(&Error::OrderLost));
    assert_eq!(counted(|| drop(target)), 0);
}
