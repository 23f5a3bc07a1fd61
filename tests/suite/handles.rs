//! The ways in which a buffer holds its home stream.

use std::{rc::Rc, sync::Arc};

use cupool::{Buffer, MemPool, Stream, StreamHandle, StreamRef};
use cupool_sim::Symbol;

use crate::fixture::Fixture;

fn works<S: StreamHandle>(pool: &MemPool, handle: S, stream: &Stream) -> Buffer<u32, S> {
    assert!(handle.stream().is_same(stream));
    let mut buffer = pool.alloc_zeroed::<u32, S>(100, handle).unwrap();
    assert!(buffer.home().is_same(stream));
    buffer.fill(3).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [3; 100]);
    buffer
}

#[test]
fn buffers_of_one_stream_share_a_home_however_they_hold_it() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let of_rc = Rc::new(fixture.stream());
    // SAFETY: the stream is of that context, and lives longer.
    let borrowed = unsafe { StreamRef::borrow_raw(stream.context(), stream.as_raw()) };
    let mut one = works(&pool, &*stream, &stream);
    let two = works(&pool, Arc::clone(&stream), &stream);
    let three = works(&pool, &borrowed, &stream);
    let four = works(&pool, &stream, &stream);
    one.copy_from(two.as_slice()).unwrap();
    one.copy_from(three.as_slice()).unwrap();
    one.copy_from(four.as_slice()).unwrap();
    works(&pool, Rc::clone(&of_rc), &of_rc).free().unwrap();
    works(&pool, &&*stream, &stream).free().unwrap();
    works(&pool, Arc::new(Arc::clone(&stream)), &stream).free().unwrap();
}

#[test]
fn a_stream_that_is_held_by_value_ends_after_its_buffer() {
    let fixture = Fixture::simulated();
    let pool = fixture.pool();
    let stream = fixture.stream();
    let buffer = pool.alloc_zeroed::<u8, _>(100, stream).unwrap();
    fixture.expect_calls(&[Symbol::cuMemFreeAsync, Symbol::cuStreamDestroy, Symbol::cuDevicePrimaryCtxRelease], || {
        drop(buffer)
    });
    let context = fixture.context();
    let other = fixture.stream();
    // SAFETY: the stream is of that context, and lives longer.
    let borrowed = unsafe { StreamRef::borrow_raw(&context, other.as_raw()) };
    let buffer = pool.alloc_zeroed::<u8, _>(100, borrowed).unwrap();
    fixture.expect_calls(&[Symbol::cuMemFreeAsync], || drop(buffer));
}

#[test]
fn shared_ownership_is_given_back_by_every_way_out() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let alloc = || pool.alloc::<u32, _>(10, Arc::clone(&stream)).unwrap();
    drop(alloc());
    alloc().free().unwrap();
    drop(alloc().cast::<u8>().unwrap());
    drop(alloc().cast::<[u8; 3]>().unwrap_err());
    let (address, len, home) = alloc().into_raw_parts();
    // SAFETY: these are the parts of a buffer that was just given up.
    drop(unsafe { Buffer::<u32, _>::from_raw_parts(address, len, home) });
    assert!(pool.alloc::<u32, _>(1 << 40, Arc::clone(&stream)).is_err());
    assert_eq!(Arc::strong_count(&stream), 1);
}
