//! How many driver calls each operation makes: what the crate promises to cost.

use std::sync::Arc;

use cupool::Buffer;
use cupool_sim::Symbol::{
    self, cuCtxPopCurrent, cuCtxPushCurrent, cuDevicePrimaryCtxRelease, cuEventCreate, cuEventDestroy, cuEventQuery,
    cuEventRecord, cuEventSynchronize, cuMemAllocFromPoolAsync, cuMemFreeAsync, cuMemcpyDtoDAsync, cuMemsetD8Async,
    cuMemsetD16Async, cuMemsetD32Async, cuStreamCreateWithPriority, cuStreamDestroy, cuStreamQuery,
    cuStreamSynchronize, cuStreamWaitEvent,
};

use crate::fixture::Fixture;

#[test]
fn an_allocation_is_one_call_and_its_release_another() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    for _ in 0..3 {
        let by_ref = fixture.expect_calls(&[cuMemAllocFromPoolAsync], || pool.alloc::<f32, _>(1 << 10, &*stream));
        fixture.expect_calls(&[cuMemFreeAsync], || drop(by_ref));
        let shared: Buffer<f32> =
            fixture.expect_calls(&[cuMemAllocFromPoolAsync], || pool.alloc(1 << 10, Arc::clone(&stream)).unwrap());
        fixture.expect_calls(&[cuMemFreeAsync], || shared.free().unwrap());
    }
}

#[test]
fn a_zeroed_allocation_is_two_calls() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = fixture.expect_calls(&[cuMemAllocFromPoolAsync, cuMemsetD8Async], || {
        pool.alloc_zeroed::<f64, _>(1 << 10, &stream).unwrap()
    });
    fixture.expect_calls(&[cuMemFreeAsync], || drop(buffer));
}

#[test]
fn views_slices_splits_and_casts_are_no_calls() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(64, &stream).unwrap();
    let buffer = fixture.expect_calls(&[], || {
        buffer.as_slice().slice(3..9).unwrap().cast::<u8>().unwrap().split_at(4).unwrap();
        let mut view = buffer.as_mut_slice();
        let _ = view.reborrow().slice(1..).unwrap();
        let _ = view.as_slice();
        view.split_at(32).unwrap();
        let _ = (buffer.len(), buffer.byte_len(), buffer.as_raw(), buffer.home().as_raw(), buffer.stream());
        assert!(buffer.slice(65..).is_err());
        let buffer = buffer.cast::<u64>().unwrap();
        let (address, len, stream) = buffer.into_raw_parts();
        // SAFETY: these are the parts of the buffer above.
        unsafe { Buffer::<u64, _>::from_raw_parts(address, len, stream) }
    });
    fixture.expect_calls(&[cuMemFreeAsync], || drop(buffer));
}

#[test]
fn a_copy_at_home_is_one_call() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let source = pool.alloc_zeroed::<u32, _>(64, Arc::clone(&stream)).unwrap();
    // The same stream, held in another way.
    let mut target = pool.alloc::<u32, _>(64, &*stream).unwrap();
    fixture.expect_calls(&[cuMemcpyDtoDAsync], || target.copy_from(source.as_slice()).unwrap());
    fixture.expect_calls(&[cuMemcpyDtoDAsync], || {
        target.slice_mut(3..5).unwrap().copy_from(source.slice(8..10).unwrap()).unwrap();
    });
    let (mut head, tail) = target.as_mut_slice().split_at(32).unwrap();
    fixture.expect_calls(&[cuMemcpyDtoDAsync], || head.copy_from(tail.as_slice()).unwrap());
}

#[test]
fn a_copy_between_homes_is_fenced_on_both_sides() {
    let fixture = Fixture::simulated();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let source = pool.alloc_zeroed::<u32, _>(64, &first).unwrap();
    let mut target = pool.alloc::<u32, _>(64, &second).unwrap();
    let make_event = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    let fence = [cuEventRecord, cuStreamWaitEvent];
    let once = [&make_event[..], &fence, &make_event, &[cuMemcpyDtoDAsync], &fence].concat();
    fixture.expect_calls(&once, || target.copy_from(source.as_slice()).unwrap());
    let again = [&fence[..], &[cuMemcpyDtoDAsync], &fence].concat();
    for _ in 0..3 {
        fixture.expect_calls(&again, || target.copy_from(source.as_slice()).unwrap());
    }
    drop((source, target));
    // Each stream made one event, for all its fences.
    fixture.expect_calls(&[cuEventDestroy, cuStreamDestroy, cuDevicePrimaryCtxRelease].repeat(2), || {
        drop((first, second))
    });
}

#[test]
fn a_fill_is_one_call_of_its_width() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(64, &stream).unwrap();
    fixture.expect_calls(&[cuMemsetD8Async], || buffer.fill(1).unwrap());
    fixture.expect_calls(&[cuMemsetD16Async], || buffer.as_mut_slice().cast::<i16>().unwrap().fill(1).unwrap());
    fixture.expect_calls(&[cuMemsetD32Async], || buffer.as_mut_slice().cast::<f32>().unwrap().fill(1.0).unwrap());
    fixture.expect_calls(&[cuMemsetD8Async], || buffer.as_mut_slice().cast::<f64>().unwrap().fill_zero().unwrap());
}

#[test]
fn streams_and_events_take_the_context_for_their_creation_only() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    let create = |symbol: Symbol| [cuCtxPushCurrent, symbol, cuCtxPopCurrent];
    let stream = fixture.expect_calls(&create(cuStreamCreateWithPriority), || cupool::Stream::new(&context).unwrap());
    let event = fixture.expect_calls(&create(cuEventCreate), || cupool::Event::new(&context).unwrap());
    fixture.expect_calls(&[cuEventRecord], || event.record(&stream).unwrap());
    fixture.expect_calls(&[cuStreamWaitEvent], || stream.wait(&event).unwrap());
    // Asked so that a capture elsewhere in the process survives the question.
    let relaxed =
        |symbol: Symbol| [Symbol::cuThreadExchangeStreamCaptureMode, symbol, Symbol::cuThreadExchangeStreamCaptureMode];
    fixture.expect_calls(&relaxed(cuEventQuery), || event.query().map(drop).unwrap());
    fixture.expect_calls(&relaxed(cuEventSynchronize), || event.synchronize().unwrap());
    fixture.expect_calls(&[cuStreamQuery], || stream.query().map(drop).unwrap());
    fixture.expect_calls(&[cuStreamSynchronize], || stream.synchronize().unwrap());
    fixture.expect_calls(&[], || stream.wait_for(&stream).unwrap());
    // They share one retain of the context, which goes with the last of them.
    fixture.expect_calls(&[cuEventDestroy], || drop(event));
    fixture.expect_calls(&[], || drop(context));
    fixture.expect_calls(&[cuStreamDestroy, cuDevicePrimaryCtxRelease], || drop(stream));
}

#[test]
fn a_small_host_copy_is_few_calls_once_there_is_a_block_to_stage_it_in() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(64, &stream).unwrap();
    buffer.copy_from_host(&[1; 64]).unwrap();
    stream.synchronize().unwrap();
    let mode = Symbol::cuThreadExchangeStreamCaptureMode;
    let up = [Symbol::cuStreamIsCapturing, mode, cuEventQuery, mode, Symbol::cuMemcpyHtoDAsync, cuEventRecord];
    fixture.expect_calls(&up, || buffer.copy_from_host(&[1; 64]).unwrap());
    stream.synchronize().unwrap();
    let down = [
        &[Symbol::cuStreamIsCapturing, mode, cuEventQuery, mode, Symbol::cuMemcpyDtoHAsync, cuEventRecord][..],
        &[mode, cuEventSynchronize, mode],
    ]
    .concat();
    fixture.expect_calls(&down, || buffer.copy_to_host(&mut [0; 64]).unwrap());
}
