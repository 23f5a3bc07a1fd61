//! Errors stay with what caused them, and say when they may be somebody else's.

use core::any::Any;
use std::sync::Arc;

use cupool::{Error, Event, MemPool, PinnedBuffer, Registered, Stream, TimedEvent};
use cupool_sim::{CUresult, Symbol};

use crate::fixture::{Fixture, Owned, owned};

/// Codes that every call answers once the device is at fault, as CUDA's documentation has them.
const STICKY: [u32; 8] = [214, 700, 702, 710, 714, 717, 718, 719];

/// What a `Drop` calls, and something to drop.
fn releases(fixture: &Fixture) -> Vec<(Symbol, Box<dyn Any>)> {
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let other = fixture.shared_stream();
    other.wait_for(&stream).unwrap();
    stream.wait_for(&other).unwrap();
    let host = PinnedBuffer::<u8>::new(&fixture.context(), 10).unwrap();
    vec![
        (Symbol::cuMemFreeAsync, Box::new(pool.alloc::<u8, _>(10, Arc::clone(&stream)).unwrap())),
        (Symbol::cuEventDestroy, Box::new(Event::new(&context).unwrap())),
        (Symbol::cuEventDestroy, Box::new(TimedEvent::new(&context).unwrap())),
        (Symbol::cuMemHostUnregister, Box::new(Registered::from_vec(&context, vec![0_u8; 10]).unwrap())),
        // Its own context ends with it, and what that kept.
        (Symbol::cuMemFreeHost, Box::new(host)),
        (Symbol::cuCtxPushCurrent, Box::new(Registered::from_vec(&context, vec![0_u8; 10]).unwrap())),
        (Symbol::cuCtxPopCurrent, Box::new(Registered::from_vec(&context, vec![0_u8; 10]).unwrap())),
        (Symbol::cuMemPoolDestroy, Box::new(MemPool::new(&fixture.device()).unwrap())),
        (Symbol::cuEventDestroy, Box::new(stream)),
        (Symbol::cuStreamDestroy, Box::new(other)),
        (Symbol::cuDevicePrimaryCtxRelease, Box::new(fixture.context())),
    ]
}

#[test]
fn c3_no_failed_release_of_any_kind_is_told_to_a_later_call() {
    for code in [1, 2, 201, 400, 600, 700, 901, 9999] {
        let fixture = Fixture::unchecked();
        let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
        for (symbol, object) in releases(&fixture) {
            fixture.sim().fail(symbol, 0, CUresult(code));
            let calls = fixture.calls_of(|| drop(object)).1;
            assert!(calls.contains(&symbol), "{symbol:?} is not what it calls: {calls:?}");
            fixture.sim().clear_faults();
            let mut buffer = pool.alloc_from_host(&[1_u32, 2, 3], &stream).unwrap();
            buffer.fill(4).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [4; 3], "after {symbol:?} answered {code}");
            buffer.free().unwrap();
            assert_eq!(stream.query(), Ok(true));
            stream.synchronize().unwrap();
            context.synchronize().unwrap();
            Event::new(&context).unwrap().synchronize().unwrap();
        }
        fixture.assert_no_findings();
    }
}

#[test]
fn c3_a_fault_of_the_device_is_told_apart_from_the_call_that_reports_it() {
    for code in (1..1100).map(CUresult) {
        let fixture = Fixture::unchecked();
        let stream = fixture.stream();
        fixture.sim().fail(Symbol::cuStreamSynchronize, 0, code);
        let error = stream.synchronize().unwrap_err();
        let text = error.to_string();
        assert_eq!(text.contains("may be of earlier work"), error.is_sticky(), "{text}");
        if STICKY.contains(&code.0) {
            assert!(error.is_sticky(), "{text}");
        }
        // Neither what this crate says itself nor a refusal lasts.
        if matches!(code.0, 1..=4 | 201 | 400 | 600 | 709 | 801 | 900..=911 | 1000..) {
            assert!(!error.is_sticky(), "{text}");
        }
    }
    assert!(![Error::OrderLost, Error::LoanForgotten, Error::NotReady].iter().any(Error::is_sticky));
}

#[test]
fn c9_a_copy_in_parts_that_fails_midway_leaves_nothing_and_can_be_repeated() {
    const LEN: usize = (1 << 20) + 7;
    let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    for part in 0..3 {
        for symbol in [Symbol::cuMemcpyHtoDAsync, Symbol::cuEventRecord, Symbol::cuMemHostAlloc] {
            let fixture = Fixture::simulated();
            let (pool, stream) = (fixture.pool(), fixture.stream());
            let mut buffer = pool.alloc::<u8, _>(LEN, &stream).unwrap();
            fixture.sim().fail(symbol, part, CUresult::CUDA_ERROR_UNKNOWN);
            let failed = buffer.copy_from_host(&bytes);
            // The host waits where an end cannot be marked.
            assert_eq!(failed.is_err(), symbol != Symbol::cuEventRecord, "{symbol:?}, part {part}: {failed:?}");
            buffer.copy_from_host(&bytes).unwrap();
            assert!(buffer.to_vec().unwrap() == bytes, "{symbol:?}, part {part}");
        }
        for symbol in [Symbol::cuMemcpyDtoHAsync, Symbol::cuEventSynchronize, Symbol::cuEventRecord] {
            let fixture = Fixture::simulated();
            let (pool, stream) = (fixture.pool(), fixture.stream());
            let buffer = pool.alloc_from_host(&bytes, &stream).unwrap();
            fixture.sim().fail(symbol, part, CUresult::CUDA_ERROR_UNKNOWN);
            let mut target = vec![0; LEN];
            let copied = buffer.copy_to_host(&mut target);
            assert!(copied.is_err() || target == bytes, "{symbol:?}, part {part}: success, and not the contents");
            assert!(buffer.to_vec().unwrap() == bytes, "{symbol:?}, part {part}");
        }
    }
}

#[test]
fn b6_a_failed_creation_of_any_object_gives_the_context_back() {
    type Make = fn(&Fixture) -> Option<Error>;
    let makes: [(Symbol, Make); 5] = [
        (Symbol::cuStreamCreateWithPriority, |fixture| Stream::new(&fixture.context()).err()),
        (Symbol::cuEventCreate, |fixture| Event::new(&fixture.context()).err()),
        (Symbol::cuEventCreate, |fixture| TimedEvent::new(&fixture.context()).err()),
        (Symbol::cuMemHostAlloc, |fixture| PinnedBuffer::<u8>::new(&fixture.context(), 10).err()),
        (Symbol::cuMemHostRegister, |fixture| {
            Registered::from_vec(&fixture.context(), vec![0_u8; 10]).err().map(|(error, _)| error)
        }),
    ];
    for (symbol, make) in makes {
        let fixture = Fixture::simulated();
        fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
        assert!(make(&fixture).is_some(), "{symbol:?}");
        assert_eq!(owned(&fixture.sim().live()), Owned::default(), "{symbol:?}");
    }
}
