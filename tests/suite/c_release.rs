//! Releases: once, of the right kind, never panicking, and never the cause of a later error.

use core::any::Any;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use cupool::{Buffer, Context, ContextRef, Event, EventRef, MemPool, MemPoolProperties, MemPoolRef, Stream, StreamRef};
use cupool_sim::{CUresult, Symbol};

use crate::fixture::{Fixture, assert_no_findings};

const CODES: [u32; 9] = [1, 2, 3, 4, 201, 700, 709, 999, 9999];

/// One of everything, in the order in which it was made.
fn one_of_each(fixture: &Fixture) -> impl Sized + use<> {
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let event = Event::new(&context).unwrap();
    let mut buffer = pool.alloc_zeroed::<u8, _>(1000, Arc::clone(&stream)).unwrap();
    let other = pool.alloc_zeroed::<u8, _>(1000, fixture.shared_stream()).unwrap();
    // Makes the fences of both streams.
    buffer.copy_from(other.as_slice()).unwrap();
    (buffer, other, event, stream, pool, context)
}

#[test]
fn c2_no_drop_panics_whatever_the_driver_answers() {
    for code in CODES {
        let fixture = Fixture::unchecked();
        let objects = one_of_each(&fixture);
        fixture.sim().fail_from(0, CUresult(code));
        drop(objects);
        assert_no_findings(fixture.sim());
    }
}

#[test]
fn c2_no_drop_aborts_while_unwinding() {
    for code in CODES {
        let fixture = Fixture::unchecked();
        let payload: Box<dyn Any + Send> = catch_unwind(AssertUnwindSafe(|| {
            let _objects = one_of_each(&fixture);
            fixture.sim().fail_from(0, CUresult(code));
            resume_unwind(Box::new("on purpose"))
        }))
        .map(|never: ()| never)
        .unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
        assert_no_findings(fixture.sim());
    }
}

#[test]
fn c2_unwinding_releases_everything() {
    let fixture = Fixture::simulated();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _objects = one_of_each(&fixture);
        resume_unwind(Box::new("on purpose"))
    }));
    assert!(unwound.map(|never: ()| never).is_err());
}

#[test]
fn c3_a_failure_in_a_drop_is_not_handed_to_the_next_call() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let lost = pool.alloc_zeroed::<u8, _>(1000, &stream).unwrap();
    fixture.sim().fail(Symbol::cuMemFreeAsync, 0, CUresult::CUDA_ERROR_INVALID_VALUE);
    drop(lost);
    stream.synchronize().unwrap();
    pool.alloc_zeroed::<u8, _>(1000, &stream).unwrap().free().unwrap();
    assert_eq!(fixture.sim().live().allocations, 1);
}

#[test]
fn c8_after_running_out_of_memory_the_next_allocation_works() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for too_much in [usize::MAX, 1 << 46, 1 << 30] {
        let error = pool.alloc::<u8, _>(too_much, &stream).unwrap_err();
        assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY), "{too_much}: {error}");
        stream.synchronize().unwrap();
        let buffer = pool.alloc_zeroed::<u8, _>(1 << 20, &stream).unwrap();
        assert!(buffer.to_vec().unwrap().iter().all(|byte| *byte == 0));
    }
}

#[test]
fn c11_no_object_has_the_null_handle() {
    // Null names the default stream: work on a "closed" handle would run there.
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    assert!(!context.as_raw().is_null());
    assert!(!pool.as_raw().is_null());
    assert!(!stream.as_raw().is_null());
    assert!(!Event::new(&context).unwrap().as_raw().is_null());
    assert_ne!(pool.alloc::<u8, _>(1, &stream).unwrap().as_raw(), 0);
}

#[test]
fn c11_a_buffer_is_released_exactly_once() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for code in [0, 1, 700] {
        for by_hand in [true, false] {
            let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
            if code != 0 {
                fixture.sim().fail(Symbol::cuMemFreeAsync, 0, CUresult(code));
            }
            // What is said of a wrong value may be meant of a capture.
            let calls = [Symbol::cuMemFreeAsync, Symbol::cuStreamIsCapturing];
            fixture.expect_calls(&calls[..1 + usize::from(code == 1)], || {
                if by_hand {
                    assert_eq!(buffer.free().err().and_then(|error| error.code()).map_or(0, |code| code.0), code);
                } else {
                    drop(buffer);
                }
            });
        }
    }
    assert_no_findings(fixture.sim());
}

#[test]
fn c12_pool_memory_is_only_ever_freed_in_stream_order() {
    let fixture = Fixture::simulated();
    drop(one_of_each(&fixture));
    assert_eq!(crate::scenario::everything(fixture.driver()), []);
    let sim = fixture.sim();
    assert_eq!(sim.count(Symbol::cuMemFree), 0);
    let allocations = sim.count(Symbol::cuMemAllocFromPoolAsync) + sim.count(Symbol::cuMemAllocAsync);
    assert_eq!(sim.count(Symbol::cuMemFreeAsync), allocations);
}

#[test]
fn c13_borrowed_objects_release_nothing() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let event = Event::new(&context).unwrap();
    fixture.expect_calls(&[], || {
        // SAFETY: the objects are live for longer than what borrows them.
        unsafe {
            drop(ContextRef::borrow_raw(context.device(), context.as_raw()));
            drop(MemPoolRef::borrow_raw(pool.device(), pool.as_raw()));
            drop(StreamRef::borrow_raw(&context, stream.as_raw()));
            drop(EventRef::borrow_raw(&context, event.as_raw()));
        }
    });
    stream.synchronize().unwrap();
    event.record(&stream).unwrap();
    drop(pool.alloc::<u8, _>(1, &stream).unwrap());
}

#[test]
fn c13_a_borrowed_stream_releases_only_the_fence_that_it_made() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut mine = pool.alloc_zeroed::<u8, _>(10, &stream).unwrap();
    let other = fixture.stream();
    {
        // SAFETY: the stream is of that context, and lives longer.
        let borrowed = unsafe { StreamRef::borrow_raw(&context, other.as_raw()) };
        let theirs = pool.alloc_zeroed::<u8, _>(10, &*borrowed).unwrap();
        mine.copy_from(theirs.as_slice()).unwrap();
    }
    assert_eq!(fixture.sim().live().events, 1, "the fence of the owned stream, not that of the borrowed one");
    assert_eq!(fixture.sim().count(Symbol::cuStreamDestroy), 0);
    other.synchronize().unwrap();
}

#[test]
fn c14_what_is_taken_apart_and_put_together_again_is_released_in_full() {
    let fixture = Fixture::new();
    let device = fixture.device();
    let context = fixture.context();
    let (stream, of) = fixture.stream().into_raw_parts();
    let (event, of_event) = Event::new(&context).unwrap().into_raw_parts();
    let pool = fixture.pool().into_raw();
    let again = context.try_clone().unwrap().into_raw().unwrap();
    assert_eq!(again, context.as_raw());
    // SAFETY: each takes over what was given up above, once.
    let (stream, event, pool, again) = unsafe {
        (
            Arc::new(Stream::from_raw_parts(stream, of)),
            Event::from_raw_parts(event, of_event),
            MemPool::from_raw(device, pool),
            Context::from_raw(device, again),
        )
    };
    event.record(&stream).unwrap();
    again.synchronize().unwrap();
    let buffer: Buffer<u16> = pool.alloc_from_host(&[1, 2, 3], Arc::clone(&stream)).unwrap();
    let (address, len, home) = buffer.into_raw_parts();
    assert_eq!((len, Arc::strong_count(&stream)), (3, 2));
    // SAFETY: these are the parts of the buffer above.
    let buffer = unsafe { Buffer::<u16>::from_raw_parts(address, len, home) };
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    drop(buffer);
    assert_eq!(Arc::strong_count(&stream), 1);
}

#[test]
fn c14_giving_a_stream_up_gives_up_no_fence() {
    let fixture = Fixture::simulated();
    let (stream, other) = (fixture.stream(), fixture.stream());
    other.wait_for(&stream).unwrap();
    assert_eq!(fixture.sim().live().events, 1);
    let (raw, context) = stream.into_raw_parts();
    assert_eq!(fixture.sim().live().events, 0);
    // SAFETY: these are the parts of the stream above.
    drop(unsafe { Stream::from_raw_parts(raw, context) });
}

#[test]
fn a_pool_is_destroyed_if_its_threshold_cannot_be_set() {
    let fixture = Fixture::simulated();
    fixture.sim().fail(Symbol::cuMemPoolSetAttribute, 0, CUresult::CUDA_ERROR_INVALID_VALUE);
    let device = fixture.device();
    assert!(MemPool::with_properties(&device, &MemPoolProperties::default()).is_err());
    assert_eq!((fixture.sim().count(Symbol::cuMemPoolCreate), fixture.sim().count(Symbol::cuMemPoolDestroy)), (1, 1));
}
