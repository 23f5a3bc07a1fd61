//! Buffers: allocated, handed over, cast and freed.

use std::sync::Arc;

use cupool::{Buffer, Stream};
use cupool_sim::Symbol;

use crate::fixture::Fixture;

#[test]
fn memory_that_was_never_written_can_be_read() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u64, _>(1000, &stream).unwrap();
    assert_eq!(buffer.to_vec().unwrap().len(), 1000);
}

#[test]
fn a_buffer_can_be_stored_beside_the_stream_it_shares() {
    struct Model {
        weights: Buffer<f32>,
        stream: Arc<Stream>,
    }

    let fixture = Fixture::new();
    let pool = fixture.pool();
    let stream = fixture.shared_stream();
    let mut model = Model { weights: pool.alloc_zeroed(100, Arc::clone(&stream)).unwrap(), stream };
    drop(pool);
    model.weights.fill(0.5).unwrap();
    model.stream.synchronize().unwrap();
    assert_eq!(model.weights.to_vec().unwrap(), [0.5; 100]);
}

#[test]
fn taken_apart_and_put_together_a_buffer_is_the_same() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc_from_host(&[1_u32, 2, 3, 4], &stream).unwrap();
    let address = buffer.as_raw();
    let parts = buffer.into_raw_parts();
    assert_eq!((parts.0, parts.1), (address, 4));
    assert!(parts.2.is_same(&stream));
    // SAFETY: these are the parts of the buffer above, and 8 halves are 4 words.
    let halves = unsafe { Buffer::<u16, _>::from_raw_parts(parts.0, 8, parts.2) };
    assert_eq!(halves.to_vec().unwrap(), [1, 0, 2, 0, 3, 0, 4, 0]);
    halves.free().unwrap();
}

#[test]
fn a_buffer_given_up_for_another_owner_is_not_freed() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let address = {
        let buffer = pool.alloc::<u32, _>(4, &stream).unwrap();
        fixture.expect_calls(&[], || buffer.into_raw_parts().0)
    };
    assert_eq!(fixture.sim().live().allocations, 1);
    // SAFETY: the allocation was given up above.
    let code = unsafe { (fixture.driver().functions().cuMemFreeAsync)(address, stream.as_raw()) };
    assert_eq!(code.0, 0);
}

#[test]
fn nothing_owned_is_nothing_freed() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    // SAFETY: address 0 owns nothing.
    let none = unsafe { Buffer::<u32, _>::from_raw_parts(0, 0, &stream) };
    fixture.expect_calls(&[], || drop(none));
}

#[test]
fn a_failed_fill_frees_the_new_buffer() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let invalid = cupool_sim::CUresult::CUDA_ERROR_INVALID_VALUE;
    fixture.sim().fail(Symbol::cuMemsetD8Async, 0, invalid);
    let error = fixture
        .expect_calls(&[Symbol::cuMemAllocFromPoolAsync, Symbol::cuMemsetD8Async, Symbol::cuMemFreeAsync], || {
            pool.alloc_zeroed::<u8, _>(10, &stream).unwrap_err()
        });
    assert_eq!(error.code(), Some(invalid));
    fixture.sim().fail(Symbol::cuMemcpyHtoDAsync, 0, cupool_sim::CUresult::CUDA_ERROR_UNKNOWN);
    assert!(pool.alloc_from_host(&[1_u8, 2], &stream).is_err());
    assert_eq!(fixture.sim().live().allocations, 0);
}

#[test]
fn forgetting_a_view_does_no_harm() {
    let fixture = Fixture::new();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    let mut target = pool.alloc::<u8, _>(100, &other).unwrap();
    #[allow(clippy::forget_non_drop, reason = "that is the question")]
    core::mem::forget(buffer.as_mut_slice());
    buffer.fill(1).unwrap();
    target.copy_from(buffer.as_slice()).unwrap();
    drop(buffer);
    assert_eq!(target.to_vec().unwrap(), [1; 100]);
}
