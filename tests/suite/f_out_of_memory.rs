//! Allocations that do not fit: one rescue, and an error that says what there is.

use core::error::Error as _;

use cupool::{Error, OutOfMemory, Rescue, cuda_sys::CUstreamCaptureMode};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    gate::Gate,
};

fn out_of_memory(error: Error) -> OutOfMemory {
    match error {
        Error::OutOfMemory(details) => *details,
        other => panic!("{other:?} is not OutOfMemory"),
    }
}

#[test]
fn f4_memory_freed_on_another_stream_is_waited_for_by_the_device_or_the_rescue() {
    let fixture = Fixture::new();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut hog = pool.alloc::<u8, _>(48 << 20, &first).unwrap();
    hog.fill(1).unwrap();
    drop(hog);
    first.synchronize().unwrap();
    let mut next = pool.alloc::<u8, _>(48 << 20, &second).unwrap();
    next.fill(2).unwrap();
    assert_eq!(next.slice(..4).unwrap().to_vec().unwrap(), [2; 4]);
}

#[test]
fn f4_a_rescue_waits_trims_and_tries_once_more() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.sim().fail(Symbol::cuMemAllocFromPoolAsync, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let (buffer, calls) = fixture.calls_of(|| pool.alloc::<u8, _>(100, &stream).unwrap());
    let of_interest: Vec<Symbol> = calls
        .into_iter()
        .filter(|call| {
            matches!(
                call,
                Symbol::cuMemAllocFromPoolAsync
                    | Symbol::cuStreamIsCapturing
                    | Symbol::cuStreamSynchronize
                    | Symbol::cuMemPoolTrimTo
            )
        })
        .collect();
    assert_eq!(
        of_interest,
        [
            Symbol::cuMemAllocFromPoolAsync,
            Symbol::cuStreamIsCapturing,
            Symbol::cuStreamSynchronize,
            Symbol::cuMemPoolTrimTo,
            Symbol::cuMemAllocFromPoolAsync
        ]
    );
    drop(buffer);
}

#[test]
fn f4_one_rescue_and_no_more() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.sim().fail_every(Symbol::cuMemAllocFromPoolAsync, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let before = fixture.sim().count(Symbol::cuMemAllocFromPoolAsync);
    let details = out_of_memory(pool.alloc::<u8, _>(100, &stream).unwrap_err());
    assert_eq!(details.rescue, Rescue::Tried);
    assert_eq!(fixture.sim().count(Symbol::cuMemAllocFromPoolAsync) - before, 2);
    fixture.sim().clear_faults();
    drop(pool.alloc::<u8, _>(100, &stream).unwrap());
}

#[test]
fn f4_a_failure_of_the_second_attempt_that_is_not_for_lack_of_memory_is_told_as_it_is() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.sim().fail(Symbol::cuMemAllocFromPoolAsync, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    fixture.sim().fail(Symbol::cuMemAllocFromPoolAsync, 1, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let error = pool.alloc::<u8, _>(100, &stream).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert!(error.is_sticky());
}

#[test]
fn f4_a_pool_that_is_told_not_to_waits_for_nothing() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_rescue(false);
    let gate = Gate::on(&fixture, &stream);
    // Were it to wait, the gate would hold it up until the test is given up.
    let details = out_of_memory(pool.alloc::<u8, _>(POOL_SIZE * 8, &stream).unwrap_err());
    assert_eq!(details.rescue, Rescue::Off);
    gate.open();
    pool.set_rescue(true);
    let details = out_of_memory(pool.alloc::<u8, _>(POOL_SIZE * 8, &stream).unwrap_err());
    assert_eq!(details.rescue, Rescue::Tried);
}

#[test]
fn f4_a_failed_wait_is_said_in_the_error() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.sim().fail(Symbol::cuStreamSynchronize, 0, CUresult::CUDA_ERROR_UNKNOWN);
    let details = out_of_memory(pool.alloc::<u8, _>(POOL_SIZE * 8, &stream).unwrap_err());
    assert_eq!(details.rescue, Rescue::WaitFailed);
}

#[test]
fn f5_no_rescue_is_tried_while_the_stream_is_being_captured_and_the_capture_survives() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let functions = fixture.driver().functions();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is live.
    let code = unsafe { functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    let answer = pool.alloc::<u8, _>(POOL_SIZE * 8, &stream);
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live, and the call writes one handle.
    let code = unsafe { functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph) };
    // A driver may also let the allocation into the graph, whose memory is not the pool's.
    match answer {
        Ok(buffer) => core::mem::forget(buffer),
        Err(error) => {
            let details = out_of_memory(error);
            assert_eq!((details.rescue, details.device), (Rescue::Capturing, None));
        }
    }
    assert_eq!(code, CUresult::CUDA_SUCCESS, "the capture was spoilt");
    // SAFETY: the graph was just made and is not used.
    assert_eq!(unsafe { functions.cuGraphDestroy.unwrap()(graph) }, CUresult::CUDA_SUCCESS);
}

#[test]
fn f27_the_error_says_what_was_asked_for_and_what_there_is() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let _kept = pool.alloc::<u8, _>(1000, &stream).unwrap();
    let error = pool.alloc::<u64, _>(16 << 20, &stream).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out of memory: 134217728 bytes requested; the pool uses 1000 of the 33554432 bytes it holds; its limit is \
         67108864; the device has 1040187392 of 1073741824 bytes free; waiting for the stream and trimming the pool did \
         not help; what is exhausted may be the pool's limit or the process's addresses, not the device"
    );
    let details = out_of_memory(error.clone());
    assert_eq!((details.requested, details.limit, details.usage.unwrap().used), (128 << 20, Some(64 << 20), 1000));
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    assert!(error.source().is_none(), "what it says is all in one place");
    assert!(!error.is_sticky());
}

#[test]
fn f27_what_the_driver_would_not_say_is_left_out() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.set_rescue(false);
    fixture.sim().fail_every(Symbol::cuMemPoolGetAttribute, CUresult::CUDA_ERROR_UNKNOWN);
    fixture.sim().fail_every(Symbol::cuMemGetInfo, CUresult::CUDA_ERROR_UNKNOWN);
    assert_eq!(
        pool.alloc::<u8, _>(128 << 20, &stream).unwrap_err().to_string(),
        "out of memory: 134217728 bytes requested; the pool does not say what it holds; its limit is 67108864; the \
         device does not say what is free; no rescue was tried, the pool is told not to"
    );
    fixture.sim().clear_faults();
}

#[test]
fn f27_a_full_device_is_not_blamed_on_the_pools_limit() {
    let fixture = Fixture::with(Simulator::builder().device_memory(256 << 20));
    let pool = cupool::MemPool::new(&fixture.device()).unwrap();
    let stream = fixture.stream();
    let text = pool.alloc::<u8, _>(300 << 20, &stream).unwrap_err().to_string();
    assert!(!text.contains("size limit"), "{text}");
}

#[test]
#[ignore = "needs a GPU"]
fn an_allocation_beyond_one_pools_limit_takes_the_free_memory_of_the_others() {
    let fixture = Fixture::alone();
    let (one, other, stream) = (fixture.pool(), fixture.pool(), fixture.stream());
    other.set_rescue(false);
    for (bytes, keeps) in [(1 << 46, true), (usize::MAX, true), (POOL_SIZE * 2, false)] {
        drop(one.alloc::<u8, _>(10 << 20, &stream).unwrap());
        stream.synchronize().unwrap();
        let held = one.usage().unwrap().reserved;
        assert!(held >= 10 << 20);
        assert!(other.alloc::<u8, _>(bytes, &stream).is_err());
        assert_eq!(one.usage().unwrap().reserved, if keeps { held } else { 0 }, "{bytes}");
    }
}
