//! Contexts: which is current, on which thread, and how often it is retained.

use core::ptr;
use std::{sync::Arc, thread};

use cupool::{Context, ContextRef, Driver, Error, Event, MemPool, Stream, TimedEvent, cuda_sys::CUcontext};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::{Fixture, owned};

/// The calling thread's current context.
fn current(driver: Driver) -> CUcontext {
    let mut context = ptr::null_mut();
    // SAFETY: the call writes one handle.
    let code = unsafe { driver.functions().cuCtxGetCurrent.unwrap()(&raw mut context) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    context
}

fn set_current(driver: Driver, context: CUcontext) {
    // SAFETY: the context is null or live.
    let code = unsafe { driver.functions().cuCtxSetCurrent.unwrap()(context) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Uses everything that belongs to `context`.
fn use_all(context: &Context, pool: &MemPool, stream: &Arc<Stream>, event: &TimedEvent) {
    let other = Stream::new(context).unwrap();
    let mut one = pool.alloc_zeroed::<u32, _>(64, Arc::clone(stream)).unwrap();
    one.copy_from_host(&[3; 64]).unwrap();
    let mut two = pool.alloc::<u32, _>(64, &other).unwrap();
    two.copy_from(one.as_slice()).unwrap();
    assert_eq!(two.to_vec().unwrap(), [3; 64]);
    one.fill(1).unwrap();
    one.free().unwrap();
    event.record(stream).unwrap();
    other.wait(event).unwrap();
    other.wait_for(stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(stream.query(), Ok(true));
    event.synchronize().unwrap();
    assert_eq!(event.query(), Ok(true));
    assert!(!stream.is_capturing().unwrap());
    let first = TimedEvent::new(context).unwrap();
    first.record(&other).unwrap();
    first.synchronize().unwrap();
    first.elapsed_ms_since(event).unwrap();
    stream.options().unwrap();
    context.try_clone().unwrap().synchronize().unwrap();
    context.memory_info().unwrap();
    context.stream_priority_range().unwrap();
    pool.usage().unwrap();
    pool.trim_to(0).unwrap();
    drop(Event::new(context).unwrap());
}

#[test]
fn b1_objects_of_one_thread_work_on_a_thread_without_a_context() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let event = TimedEvent::new(&context).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(current(fixture.driver()).is_null());
            use_all(&context, &pool, &stream, &event);
            assert!(current(fixture.driver()).is_null(), "a context was left current");
        });
    });
}

#[test]
fn b1_the_callers_own_current_context_stays_current() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let event = TimedEvent::new(&context).unwrap();
    let outside = current(fixture.driver());
    set_current(fixture.driver(), context.as_raw());
    use_all(&context, &pool, &stream, &event);
    assert_eq!(current(fixture.driver()), context.as_raw());
    set_current(fixture.driver(), outside);
}

#[test]
fn b2_objects_of_one_device_work_while_anothers_context_is_current() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let devices = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap());
    let contexts = devices.map(|device| device.primary_context().unwrap());
    for (mine, other) in [(0, 1), (1, 0)] {
        set_current(fixture.driver(), contexts[other].as_raw());
        let stream = Arc::new(Stream::new(&contexts[mine]).unwrap());
        let mut belongs_to = ptr::null_mut();
        // SAFETY: the stream is live, and the call writes one handle.
        let code =
            unsafe { fixture.driver().functions().cuStreamGetCtx.unwrap()(stream.as_raw(), &raw mut belongs_to) };
        assert_eq!((code, belongs_to), (CUresult::CUDA_SUCCESS, contexts[mine].as_raw()));
        let event = TimedEvent::new(&contexts[mine]).unwrap();
        use_all(&contexts[mine], &MemPool::new(&devices[mine]).unwrap(), &stream, &event);
        assert_eq!(current(fixture.driver()), contexts[other].as_raw());
    }
    set_current(fixture.driver(), ptr::null_mut());
}

#[test]
fn b3_everything_can_be_dropped_on_a_thread_without_a_context() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let buffer = pool.alloc_zeroed::<u8, _>(1000, Arc::clone(&stream)).unwrap();
    let mut elsewhere = pool.alloc_zeroed::<u8, _>(1000, fixture.shared_stream()).unwrap();
    elsewhere.copy_from(buffer.as_slice()).unwrap();
    let (event, timed) = (Event::new(&context).unwrap(), TimedEvent::new(&context).unwrap());
    thread::spawn(move || drop((buffer, elsewhere, event, timed, stream, pool, context))).join().unwrap();
    // The fixture sees to it that nothing is alive.
}

#[test]
fn b5_after_a_reset_calls_say_that_the_context_is_gone_and_drops_are_silent() {
    let fixture = Fixture::unchecked();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let event = Event::new(&context).unwrap();
    let mut buffer = pool.alloc_zeroed::<u8, _>(1000, Arc::clone(&stream)).unwrap();
    fixture.sim().reset_device(0);
    let gone = Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(stream.synchronize().unwrap_err().code(), gone);
    assert_eq!(buffer.fill(0).unwrap_err().code(), gone);
    assert_eq!(pool.alloc::<u8, _>(8, &stream).unwrap_err().code(), gone);
    assert_eq!(buffer.free().unwrap_err().code(), gone);
    drop((event, stream, pool, context));
}

#[test]
fn b6_failures_give_back_the_retain_that_they_took() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    type Attempt = (&'static [Symbol], fn(&Context) -> Result<(), Error>);
    let attempts: [Attempt; 5] = [
        (&[Symbol::cuDevicePrimaryCtxRetain], |context| context.device().primary_context().map(drop)),
        (&[Symbol::cuDevicePrimaryCtxRetain], |context| context.try_clone().unwrap().into_raw().map(drop)),
        (&[Symbol::cuCtxPushCurrent, Symbol::cuStreamCreateWithPriority], |context| Stream::new(context).map(drop)),
        (&[Symbol::cuCtxPushCurrent, Symbol::cuEventCreate], |context| Event::new(context).map(drop)),
        (&[Symbol::cuCtxPushCurrent, Symbol::cuMemGetInfo], |context| context.memory_info().map(drop)),
    ];
    for (symbols, attempt) in attempts {
        for symbol in symbols {
            fixture.sim().fail(*symbol, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
            assert!(attempt(&context).is_err(), "{symbol:?}");
            let live = owned(&fixture.sim().live());
            assert_eq!((live.retains, live.pushed_contexts, live.streams, live.events), (1, 0, 0, 0), "{symbol:?}");
        }
    }
}

#[test]
fn b6_with_current_restores_the_stack_when_the_work_panics() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        context.with_current::<()>(|| std::panic::resume_unwind(Box::new("on purpose")))
    }));
    assert!(unwound.is_err());
    assert_eq!(fixture.sim().live().pushed_contexts, 0);
}

#[test]
fn b8_an_event_is_refused_by_another_devices_stream_but_may_be_waited_for() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let contexts = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap().primary_context().unwrap());
    let streams = contexts.each_ref().map(|context| Stream::new(context).unwrap());
    let event = Event::new(&contexts[1]).unwrap();
    assert_eq!(event.record(&streams[0]), Err(Error::ContextMismatch));
    event.record(&streams[1]).unwrap();
    streams[0].wait(&event).unwrap();
    streams[0].wait_for(&streams[1]).unwrap();
    streams[1].wait_for(&streams[0]).unwrap();
    streams[0].synchronize().unwrap();
}

#[test]
fn a_borrowed_context_that_is_not_the_primary_one_makes_no_streams() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let devices = [0, 1].map(|ordinal| fixture.driver().device(ordinal).unwrap());
    let other = devices[1].primary_context().unwrap();
    // SAFETY: a live context; that it is another device's makes it one that is not the device's primary one.
    let borrowed = unsafe { cupool::ContextRef::borrow_raw(devices[0], other.as_raw()) };
    assert_eq!(Stream::new(&borrowed).unwrap_err(), Error::NotPrimary);
    assert_eq!(Event::new(&borrowed).unwrap_err(), Error::NotPrimary);
    assert_eq!(borrowed.try_clone().unwrap_err(), Error::NotPrimary);
}

#[test]
fn the_current_context_is_borrowed_from_whoever_made_it_so() {
    let fixture = Fixture::new();
    let (driver, context) = (fixture.driver(), fixture.context());
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the context outlives the borrow.
            assert!(unsafe { ContextRef::current(driver) }.unwrap().is_none());
            let found = context.with_current(|| {
                // SAFETY: as above.
                let current = unsafe { ContextRef::current(driver) }?.unwrap();
                Stream::new(&current)?.synchronize()?;
                Ok((current.as_raw(), current.device()))
            });
            assert_eq!(found, Ok((context.as_raw(), fixture.device())));
        });
    });
}

#[test]
fn a_device_tells_whether_its_primary_context_is_there() {
    let fixture = Fixture::simulated();
    let device = fixture.device();
    assert_eq!(device.is_primary_context_active(), Ok(false));
    let context = fixture.context();
    assert_eq!(device.is_primary_context_active(), Ok(true));
    drop(context);
    assert_eq!(device.is_primary_context_active(), Ok(false));
}
