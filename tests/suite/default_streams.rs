//! The default streams: order with them, and buffers lent to them.

use core::{mem, ptr};
use std::{sync::Arc, thread};

use cupool::{
    Buffer, Context, DefaultStream, DefaultStreamKind, Error, Event, LegacyStream, PerThreadStream, Stream,
    StreamOptions, StreamRef,
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{fixture::Fixture, gate::Gate};

/// What a library does that was given no stream: sets `len` words at `address`, in the order of `stream`.
fn library_fills<K: DefaultStreamKind>(stream: &DefaultStream<K>, address: u64, value: u32, len: usize) {
    let fill = stream.driver().functions().cuMemsetD32Async;
    // SAFETY: the tests pass memory of that size that the default stream may use; the context is current.
    let code = stream.context().with_current(|| Ok(unsafe { fill(address, value, len, stream.as_raw()) })).unwrap();
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Copies on the default stream, as above.
fn library_copies<K: DefaultStreamKind>(stream: &DefaultStream<K>, to: u64, from: u64, bytes: usize) {
    let copy = stream.driver().functions().cuMemcpyDtoDAsync;
    // SAFETY: as above.
    let code = stream.context().with_current(|| Ok(unsafe { copy(to, from, bytes, stream.as_raw()) })).unwrap();
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

fn current(context: &Context) -> *mut core::ffi::c_void {
    let mut current = ptr::null_mut();
    // SAFETY: the call writes one handle.
    unsafe { context.driver().functions().cuCtxGetCurrent.unwrap()(&raw mut current) };
    current.cast()
}

fn a_loan_sees_what_was_before_it_and_home_sees_the_loan<K: DefaultStreamKind>() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
        let default = DefaultStream::<K>::new(&context).unwrap();
        let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
        let mut seen = pool.alloc::<u32, _>(1000, &home).unwrap();
        for round in 0..5 {
            buffer.fill(round).unwrap();
            let loan = buffer.on_default(&default).unwrap();
            let target = seen.on_default(&default).unwrap();
            assert_eq!((loan.len(), loan.is_empty()), (1000, false));
            library_copies(&default, target.as_raw(), loan.as_raw(), 4000);
            library_fills(&default, loan.as_raw() + 2000, 100 + round, 500);
            drop((loan, target));
            let values = buffer.to_vec().unwrap();
            assert_eq!((values[499], values[500]), (round, 100 + round));
            assert_eq!(seen.to_vec().unwrap(), [round; 1000]);
        }
    }
}

#[test]
fn a_loan_to_the_legacy_stream_is_ordered_on_both_sides() {
    a_loan_sees_what_was_before_it_and_home_sees_the_loan::<cupool::Legacy>();
}

#[test]
fn a_loan_to_the_per_thread_stream_is_ordered_on_both_sides() {
    a_loan_sees_what_was_before_it_and_home_sees_the_loan::<cupool::PerThread>();
}

#[test]
fn a_loan_works_on_either_driver_and_leaves_no_context_current() {
    let fixture = Fixture::alone();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
    let before = current(&context);
    let default = LegacyStream::new(&context).unwrap();
    let mut buffer = pool.alloc_zeroed::<u32, _>(1 << 16, &home).unwrap();
    let loan = buffer.on_default(&default).unwrap();
    library_fills(&default, loan.as_raw(), 7, 1 << 15);
    drop(loan);
    assert_eq!(buffer.slice(0x7fff..0x8001).unwrap().to_vec().unwrap(), [7, 0]);
    let mut copy = pool.alloc::<u32, _>(1 << 16, &home).unwrap();
    let (from, to) = (buffer.read_on_default(&default).unwrap(), copy.on_default(&default).unwrap());
    assert_eq!((from.len(), from.is_empty()), (1 << 16, false));
    library_copies(&default, to.as_raw(), from.as_raw(), 4 << 16);
    drop((from, to));
    buffer.fill(9).unwrap();
    assert_eq!(copy.slice(0x7fff..0x8001).unwrap().to_vec().unwrap(), [7, 0]);
    assert_eq!(current(&context), before);
}

#[test]
fn without_a_loan_the_simulated_driver_finds_the_race() {
    let fixture = Fixture::simulated();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
    let default = LegacyStream::new(&context).unwrap();
    let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
    buffer.fill(1).unwrap();
    library_fills(&default, buffer.as_raw(), 2, 1000);
    default.synchronize().unwrap();
    home.synchronize().unwrap();
    assert!(!fixture.sim().take_findings().is_empty());
}

#[test]
fn a_loan_is_one_fence_there_and_one_back_inside_the_context() {
    let fixture = Fixture::simulated();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
    let default = LegacyStream::new(&context).unwrap();
    let mut buffer = pool.alloc::<u32, _>(10, &home).unwrap();
    let address = buffer.as_raw();
    home.wait_for_default(&default).unwrap();
    default.wait_for(&home).unwrap();
    let fence = [Symbol::cuCtxPushCurrent, Symbol::cuEventRecord, Symbol::cuStreamWaitEvent, Symbol::cuCtxPopCurrent];
    let loan = fixture.expect_calls(&fence, || buffer.on_default(&default).unwrap());
    assert_eq!(loan.as_raw(), address);
    fixture.expect_calls(&fence, || drop(loan));
    assert_eq!((buffer.as_raw(), buffer.len()), (address, 10));
    let loan = fixture.expect_calls(&fence, || buffer.read_on_default(&default).unwrap());
    assert_eq!(loan.as_raw(), address);
    fixture.expect_calls(&fence, || drop(loan));
    let mut none = pool.alloc::<u32, _>(0, &home).unwrap();
    fixture.expect_calls(&[], || drop(none.on_default(&default).unwrap()));
    fixture.expect_calls(&[], || drop(none.read_on_default(&default).unwrap()));
}

#[test]
fn waits_order_a_default_stream_and_another_both_ways() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
        let default = LegacyStream::new(&context).unwrap();
        let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
        buffer.fill(1).unwrap();
        default.wait_for(&home).unwrap();
        library_fills(&default, buffer.as_raw(), 2, 500);
        home.wait_for_default(&default).unwrap();
        let values = buffer.to_vec().unwrap();
        assert_eq!((values[499], values[500]), (2, 1));
    }
}

#[test]
fn events_are_recorded_and_waited_for_on_default_streams() {
    let fixture = Fixture::alone();
    let (context, home) = (fixture.context(), fixture.stream());
    let (legacy, mine) = (LegacyStream::new(&context).unwrap(), PerThreadStream::new(&context).unwrap());
    let (first, second) = (Event::new(&context).unwrap(), Event::new(&context).unwrap());
    let gate = Gate::on(&fixture, &home);
    first.record(&home).unwrap();
    legacy.wait(&first).unwrap();
    legacy.record(&second).unwrap();
    gate.open();
    second.synchronize().unwrap();
    assert_eq!(first.query(), Ok(true));
    mine.wait(&second).unwrap();
    mine.record(&first).unwrap();
    mine.synchronize().unwrap();
    assert_eq!((first.query(), mine.query(), legacy.query()), (Ok(true), Ok(true), Ok(true)));
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_not_for_others() {
    let fixture = Fixture::simulated();
    let (context, pool) = (fixture.context(), fixture.pool());
    let options = StreamOptions { blocking: true, ..StreamOptions::default() };
    let (blocking, other) = (Stream::with_options(&context, options).unwrap(), fixture.stream());
    let legacy = LegacyStream::new(&context).unwrap();
    let event = Event::new(&context).unwrap();
    let mut ordered = pool.alloc::<u32, _>(10, &blocking).unwrap();
    let mut unordered = pool.alloc::<u32, _>(10, &other).unwrap();
    ordered.fill(1).unwrap();
    library_fills(&legacy, ordered.as_raw(), 2, 10);
    legacy.record(&event).unwrap();
    event.synchronize().unwrap();
    fixture.assert_no_findings();
    unordered.fill(1).unwrap();
    library_fills(&legacy, unordered.as_raw(), 2, 10);
    legacy.synchronize().unwrap();
    other.synchronize().unwrap();
    assert!(!fixture.sim().take_findings().is_empty());
}

#[test]
fn d6_each_thread_has_a_per_thread_stream_of_its_own() {
    for seed in 0..10 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.shared_stream());
        thread::scope(|scope| {
            for value in 0..4 {
                let (context, pool, home) = (&context, &pool, &home);
                scope.spawn(move || {
                    let mine = PerThreadStream::new(context).unwrap();
                    let mut buffer = pool.alloc_zeroed::<u32, _>(100, Arc::clone(home)).unwrap();
                    let loan = buffer.on_default(&mine).unwrap();
                    library_fills(&mine, loan.as_raw(), value, 100);
                    drop(loan);
                    assert_eq!(buffer.to_vec().unwrap(), [value; 100]);
                });
            }
        });
    }
}

#[test]
fn b1_the_legacy_stream_works_on_a_thread_without_a_context() {
    let fixture = Fixture::alone();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
    let legacy = LegacyStream::new(&context).unwrap();
    let mut buffer = pool.alloc_zeroed::<u32, _>(100, &home).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let loan = buffer.on_default(&legacy).unwrap();
            library_fills(&legacy, loan.as_raw(), 3, 100);
            drop(loan);
            legacy.synchronize().unwrap();
            assert_eq!(legacy.query(), Ok(true));
            assert!(current(&context).is_null());
        });
    });
    assert_eq!(buffer.to_vec().unwrap(), [3; 100]);
    thread::scope(|scope| drop(scope.spawn(|| drop(legacy))));
}

#[test]
fn b2_the_stream_is_that_of_its_own_context_whatever_is_current() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let contexts = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap().primary_context().unwrap());
    let (pool, home) = (fixture.pool(), fixture.stream());
    let defaults = contexts.each_ref().map(|context| LegacyStream::new(context).unwrap());
    let mut buffer = pool.alloc_zeroed::<u32, _>(100, &home).unwrap();
    contexts[1]
        .with_current(|| {
            let loan = buffer.on_default(&defaults[0])?;
            library_fills(&defaults[0], loan.as_raw(), 5, 100);
            drop(loan);
            assert_eq!(buffer.to_vec()?, [5; 100]);
            Ok(())
        })
        .unwrap();
    // Across devices, too.
    defaults[1].wait_for(&home).unwrap();
    home.wait_for_default(&defaults[1]).unwrap();
}

#[test]
fn b8_an_event_is_refused_by_a_default_stream_of_another_context_but_may_be_waited_for() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let contexts = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap().primary_context().unwrap());
    let defaults = contexts.each_ref().map(|context| LegacyStream::new(context).unwrap());
    let event = Event::new(&contexts[1]).unwrap();
    assert_eq!(defaults[0].record(&event), Err(Error::ContextMismatch));
    assert_eq!(event.record(&Stream::new(&contexts[0]).unwrap()), Err(Error::ContextMismatch));
    defaults[1].record(&event).unwrap();
    defaults[0].wait(&event).unwrap();
    defaults[0].synchronize().unwrap();
    assert!(Error::ContextMismatch.to_string().contains("context"));
}

#[test]
fn objects_of_two_drivers_are_refused() {
    let (fixture, elsewhere) = (Fixture::simulated(), Fixture::simulated());
    let legacy = LegacyStream::new(&elsewhere.context()).unwrap();
    let (pool, home) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(10, &home).unwrap();
    assert_eq!(buffer.on_default(&legacy).map(drop), Err(Error::DriverMismatch));
    assert_eq!(buffer.read_on_default(&legacy).map(drop), Err(Error::DriverMismatch));
    assert_eq!(pool.alloc::<u32, _>(0, &home).unwrap().on_default(&legacy).map(drop), Err(Error::DriverMismatch));
    assert_eq!(legacy.wait_for(&home), Err(Error::DriverMismatch));
    assert_eq!(home.wait_for_default(&legacy), Err(Error::DriverMismatch));
    assert_eq!(legacy.record(&Event::new(&fixture.context()).unwrap()), Err(Error::DriverMismatch));
    assert_eq!(legacy.wait(&Event::new(&fixture.context()).unwrap()), Err(Error::DriverMismatch));
    buffer.fill(1).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1; 10]);
}

#[test]
fn d11_memory_of_a_forgotten_loan_to_a_default_stream_is_given_up() {
    let fixture = Fixture::unchecked();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
    let legacy = LegacyStream::new(&context).unwrap();
    let mut exclusive = pool.alloc::<u32, _>(10, &home).unwrap();
    let shared = pool.alloc::<u32, _>(10, &home).unwrap();
    mem::forget(exclusive.on_default(&legacy).unwrap());
    assert_eq!(exclusive.fill(1), Err(Error::LoanForgotten));
    assert_eq!(exclusive.on_default(&legacy).map(drop), Err(Error::LoanForgotten));
    assert_eq!(exclusive.free(), Err(Error::LoanForgotten));
    mem::forget(shared.read_on_default(&legacy).unwrap());
    shared.as_slice().to_vec().unwrap();
    let lost = |buffer: Buffer<u32, &Stream>| buffer.free();
    assert_eq!(lost(shared), Err(Error::LoanForgotten));
    assert_eq!(fixture.sim().live().allocations, 2);
    fixture.assert_no_findings();
}

#[test]
fn a_loan_that_cannot_be_given_back_in_order_is_waited_for_or_given_up() {
    for (symbols, survives) in [
        (&[Symbol::cuEventRecord][..], true),
        (&[Symbol::cuStreamWaitEvent], true),
        (&[Symbol::cuEventRecord, Symbol::cuStreamSynchronize], true),
        (&[Symbol::cuEventRecord, Symbol::cuStreamSynchronize, Symbol::cuCtxSynchronize], true),
        (&[Symbol::cuCtxPushCurrent], true),
        (&[Symbol::cuCtxPushCurrent, Symbol::cuCtxSynchronize], false),
    ] {
        let fixture = Fixture::unchecked();
        let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.stream());
        let legacy = LegacyStream::new(&context).unwrap();
        let mut buffer = pool.alloc::<u32, _>(10, &home).unwrap();
        home.wait_for_default(&legacy).unwrap();
        let loan = buffer.on_default(&legacy).unwrap();
        for symbol in symbols {
            fixture.sim().fail(*symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
        }
        drop(loan);
        assert_eq!(buffer.fill(1).is_ok(), survives, "{symbols:?}");
        assert_eq!(buffer.free().is_ok(), survives, "{symbols:?}");
        home.synchronize().unwrap();
        assert_eq!(fixture.sim().live().allocations, usize::from(!survives), "{symbols:?}");
        fixture.assert_no_findings();
    }
}

#[test]
fn a_borrowed_stream_can_be_checked_against_its_context() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let contexts = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap().primary_context().unwrap());
    let stream = Stream::new(&contexts[0]).unwrap();
    stream.ensure_of_context().unwrap();
    // SAFETY: the stream is live; that its context is another is what is to be found out, and nothing is done with it.
    let wrong = unsafe { StreamRef::borrow_raw(&contexts[1], stream.as_raw()) };
    assert_eq!(wrong.ensure_of_context(), Err(Error::ContextMismatch));
}

#[test]
fn g8_a_loan_to_the_per_thread_stream_leaves_a_capture_alone() {
    let fixture = Fixture::alone();
    let (context, pool, home, captured) = (fixture.context(), fixture.pool(), fixture.stream(), fixture.stream());
    let mine = PerThreadStream::new(&context).unwrap();
    let mut buffer = pool.alloc_zeroed::<u32, _>(100, &home).unwrap();
    // The events are there before.
    drop(buffer.on_default(&mine).unwrap());
    let functions = fixture.driver().functions();
    let mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is live.
    assert_eq!(unsafe { functions.cuStreamBeginCapture.unwrap()(captured.as_raw(), mode) }, CUresult::CUDA_SUCCESS);
    let loan = buffer.on_default(&mine).unwrap();
    library_fills(&mine, loan.as_raw(), 4, 100);
    drop(loan);
    let mut graph = ptr::null_mut();
    // SAFETY: as above; the call writes one handle, which is destroyed.
    unsafe {
        assert_eq!(functions.cuStreamEndCapture.unwrap()(captured.as_raw(), &raw mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
    assert_eq!(buffer.to_vec().unwrap(), [4; 100]);
}
