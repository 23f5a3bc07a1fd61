//! cupool and cudarc on one stream, in one another's memory, without a copy.
//!
//! Both retain the device's primary context, so their streams and memory are of one context. Needs a GPU.

use std::{error::Error, sync::Arc};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use cupool::{Buffer, Context, Driver, ForeignBuffer, MemPool, Stream, StreamRef};

const LEN: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let driver = Driver::load()?;
    let context = driver.device(0)?.primary_context()?;
    let stream = Arc::new(Stream::new(&context)?);
    let pool = MemPool::new(&context.device())?;
    let theirs = CudaContext::new(0)?;
    assert_eq!(theirs.cu_ctx().addr(), context.as_raw().addr(), "both use the device's primary context");
    // SAFETY: a stream of that context, which this function keeps until the end.
    let wrapped = unsafe { theirs.wrap_borrowed_stream(stream.as_raw().cast()) };

    there_and_back(&pool, &stream, &wrapped)?;
    freed_by_cudarc(&pool, &stream, &wrapped)?;
    a_slice_of_theirs(&context, &theirs, &stream, &wrapped)?;
    a_thousand_times(&context, &theirs, &pool, &stream, &wrapped)?;
    println!("ok");
    Ok(())
}

/// A buffer becomes a slice of cudarc's on the same stream, is written there, and comes back.
fn there_and_back(pool: &MemPool, stream: &Arc<Stream>, wrapped: &Arc<CudaStream>) -> Result<(), Box<dyn Error>> {
    let buffer: Buffer<f32> = pool.alloc_from_host(&vec![1.0; LEN], Arc::clone(stream))?;
    let (address, len, home) = buffer.into_raw_parts();
    // SAFETY: a stream-ordered allocation of so many elements, given up by the buffer, on its own stream.
    let mut slice = unsafe { wrapped.upgrade_device_ptr::<f32>(address, len) };
    assert_eq!(wrapped.clone_dtoh(&slice)?, vec![1.0; LEN], "cudarc reads what cupool wrote");
    wrapped.memcpy_htod(&vec![2.0; LEN], &mut slice)?;
    let address = slice.leak();
    // SAFETY: the same allocation, given up by the slice; all its use was on the same stream.
    let buffer = unsafe { Buffer::<f32, _>::from_raw_parts(address, len, home) };
    assert_eq!(buffer.to_vec()?, vec![2.0; LEN], "cupool reads what cudarc wrote");
    println!("ok  there and back, at {:#x}", buffer.as_raw());
    Ok(())
}

/// A buffer that cudarc frees, which calls `cuMemFreeAsync` on the same stream.
fn freed_by_cudarc(pool: &MemPool, stream: &Arc<Stream>, wrapped: &Arc<CudaStream>) -> Result<(), Box<dyn Error>> {
    stream.synchronize()?;
    let before = pool.usage()?.used;
    let (address, len, _) = pool.alloc_zeroed::<u8, _>(LEN, &**stream)?.into_raw_parts();
    // SAFETY: as above.
    let mut slice: CudaSlice<u8> = unsafe { wrapped.upgrade_device_ptr(address, len) };
    wrapped.memset_zeros(&mut slice)?;
    drop(slice);
    stream.synchronize()?;
    assert_eq!(pool.usage()?.used, before, "cudarc gave the memory back to cupool's pool");
    println!("ok  freed by cudarc");
    Ok(())
}

/// Memory of cudarc's, used here in the order of a stream of ours. cudarc frees it when the device is done.
fn a_slice_of_theirs(
    context: &Context,
    theirs: &Arc<CudaContext>,
    stream: &Stream,
    wrapped: &Arc<CudaStream>,
) -> Result<(), Box<dyn Error>> {
    let their_stream = theirs.new_stream()?;
    let slice = their_stream.clone_htod(&vec![3_u32; LEN])?;
    let mut ours = foreign(slice, stream, wrapped)?;
    assert_eq!(ours.to_vec()?, vec![3; LEN], "cupool reads what cudarc wrote");
    ours.as_mut_slice().fill(4)?;
    // The slice comes back once the work is done.
    let slice = ours.into_owner().map_err(|(error, _)| error)?;
    assert_eq!(their_stream.clone_dtoh(&slice)?, vec![4; LEN], "cudarc reads what cupool wrote");
    // Dropped in the middle of its work.
    let mut ours = foreign(slice, stream, wrapped)?;
    ours.as_mut_slice().fill(5)?;
    drop(ours);
    context.drop_retired()?;
    // A stream of theirs, seen as one of ours.
    // SAFETY: a stream of this context, which outlives what borrows it.
    let borrowed = unsafe { StreamRef::borrow_raw(context, their_stream.cu_stream().cast()) };
    stream.wait_for(&borrowed)?;
    stream.synchronize()?;
    println!("ok  a slice of cudarc's");
    Ok(())
}

fn foreign<'a>(
    slice: CudaSlice<u32>,
    stream: &'a Stream,
    wrapped: &Arc<CudaStream>,
) -> Result<ForeignBuffer<u32, CudaSlice<u32>, &'a Stream>, cupool::Error> {
    // Makes the stream wait for what cudarc has done with the memory.
    let address = slice.device_ptr(wrapped).0;
    let len = slice.len();
    // SAFETY: the slice's memory, which lives until it is dropped, and is ready in the stream's order; nobody else has
    // the slice.
    unsafe { ForeignBuffer::new(address, len, stream, slice) }.map_err(|(error, _)| error)
}

/// Memory stays flat.
fn a_thousand_times(
    context: &Context,
    theirs: &Arc<CudaContext>,
    pool: &MemPool,
    stream: &Arc<Stream>,
    wrapped: &Arc<CudaStream>,
) -> Result<(), Box<dyn Error>> {
    let their_stream = theirs.new_stream()?;
    let mut before = 0;
    for round in 0..1000 {
        let (address, len, _) = pool.alloc_zeroed::<u8, _>(LEN, &**stream)?.into_raw_parts();
        // SAFETY: as above.
        drop(unsafe { wrapped.upgrade_device_ptr::<u8>(address, len) });
        let mut ours = foreign(their_stream.clone_htod(&[round; 1000])?, stream, wrapped)?;
        ours.as_mut_slice().fill(round)?;
        drop(ours);
        if round == 100 {
            before = context.memory_info()?.free;
        }
    }
    context.drop_retired()?;
    context.synchronize()?;
    let after = context.memory_info()?.free;
    assert!(after + (64 << 20) >= before, "{before} bytes were free, {after} are left");
    assert_eq!(pool.usage()?.used, 0);
    assert_eq!(cupool::release_failures(), 0, "{:?}", cupool::recent_release_failures());
    println!("ok  a thousand times");
    Ok(())
}
