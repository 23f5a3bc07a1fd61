//! Memory that a pool takes before it is needed.

use cupool::{Error, cuda_sys::CUstreamCaptureMode};
use cupool_sim::CUresult;

use crate::{
    fixture::{Fixture, POOL_SIZE},
    pool_kinds::properties,
};

#[test]
fn a_primed_pool_holds_free_memory_that_the_next_allocations_take() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.prime(40 << 20, &stream).unwrap();
    let primed = pool.usage().unwrap();
    assert_eq!(primed.used, 0);
    assert!(primed.reserved >= 40 << 20);
    stream.synchronize().unwrap();
    let parts = [(); 4].map(|()| pool.alloc::<u8, _>(10 << 20, &stream).unwrap());
    assert_eq!(pool.usage().unwrap().reserved, primed.reserved);
    drop(parts);
    // Nothing is no call.
    pool.prime(0, &stream).unwrap();
}

#[test]
fn priming_says_why_it_failed_and_leaves_nothing_in_use() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let Err(Error::OutOfMemory(details)) = pool.prime(2 * POOL_SIZE, &stream) else { panic!("it cannot fit") };
    assert_eq!((details.requested, details.limit), (2 * POOL_SIZE, Some(POOL_SIZE)));
    assert_eq!(pool.usage().unwrap().used, 0);

    let functions = fixture.driver().functions();
    let begin = functions.cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    assert_eq!(pool.prime(1 << 20, &stream), Err(Error::StreamCapturing));
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream captures, and the call writes one handle, which is used up at once.
    unsafe {
        assert_eq!(functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn a_primed_pool_that_keeps_nothing_gives_it_back_at_a_synchronisation() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool_with(properties().release_threshold(0)), fixture.stream());
    pool.prime(40 << 20, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().reserved, 0);
}
