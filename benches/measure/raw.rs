//! The driver's calls as a program without this crate makes them, and the end of a bench in which one fails.

use std::ffi::c_void;

use cupool::{
    Event, MemPool, Stream,
    cuda_sys::{CUdeviceptr_v2, CUresult, Functions},
};

/// Allocates from a pool in a stream's order, by raw calls.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    functions: &'static Functions,
    pool: &'a MemPool,
    stream: &'a Stream,
}

impl<'a> Raw<'a> {
    pub(crate) const fn new(pool: &'a MemPool, stream: &'a Stream) -> Self {
        Self { functions: stream.driver().functions(), pool, stream }
    }

    #[inline(always)]
    pub(crate) fn allocate(self, bytes: usize) -> CUdeviceptr_v2 {
        let mut address = 0;
        // SAFETY: pool and stream are borrowed, hence live, and the address is a local variable.
        ok(unsafe {
            (self.functions.cuMemAllocFromPoolAsync)(&raw mut address, bytes, self.pool.as_raw(), self.stream.as_raw())
        });
        address
    }

    /// Frees what [`allocate`](Self::allocate) gave; no bench uses memory after that.
    #[inline(always)]
    pub(crate) fn free(self, address: CUdeviceptr_v2) {
        // SAFETY: the stream is borrowed, hence live, and the driver refuses an address that it has not given.
        ok(unsafe { (self.functions.cuMemFreeAsync)(address, self.stream.as_raw()) });
    }
}

#[inline(always)]
pub(crate) fn record(event: &Event, stream: &Stream) {
    // SAFETY: both are borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuEventRecord)(event.as_raw(), stream.as_raw()) });
}

#[inline(always)]
pub(crate) fn wait(stream: &Stream, event: &Event) {
    // SAFETY: both are borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuStreamWaitEvent)(stream.as_raw(), event.as_raw(), 0) });
}

/// Of an event that has been passed.
#[inline(always)]
pub(crate) fn query(functions: &Functions, event: &Event) {
    // SAFETY: the event is borrowed, hence live.
    ok(unsafe { (functions.cuEventQuery)(event.as_raw()) });
}

#[inline(always)]
pub(crate) fn synchronize(functions: &Functions, event: &Event) {
    // SAFETY: the event is borrowed, hence live.
    ok(unsafe { (functions.cuEventSynchronize)(event.as_raw()) });
}

/// Of a stream that is idle.
#[inline(always)]
pub(crate) fn query_stream(stream: &Stream) {
    // SAFETY: the stream is borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuStreamQuery)(stream.as_raw()) });
}

#[inline(always)]
pub(crate) fn synchronize_stream(stream: &Stream) {
    // SAFETY: the stream is borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuStreamSynchronize)(stream.as_raw()) });
}

/// # Safety
/// As for the driver's call: both places hold so many bytes, until the copy is done.
#[inline(always)]
pub(crate) unsafe fn copy_to_device(stream: &Stream, destination: CUdeviceptr_v2, source: *const u8, bytes: usize) {
    let source = source.cast::<c_void>();
    // SAFETY: the caller vouches for the memory; the stream is borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuMemcpyHtoDAsync)(destination, source, bytes, stream.as_raw()) });
}

/// # Safety
/// As for the driver's call: both places hold so many bytes, until the copy is done.
#[inline(always)]
pub(crate) unsafe fn copy_to_host(stream: &Stream, destination: *mut u8, source: CUdeviceptr_v2, bytes: usize) {
    let destination = destination.cast::<c_void>();
    // SAFETY: the caller vouches for the memory; the stream is borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuMemcpyDtoHAsync)(destination, source, bytes, stream.as_raw()) });
}

/// # Safety
/// As for the driver's call: both places hold so many bytes, until the copy is done.
#[inline(always)]
pub(crate) unsafe fn copy(stream: &Stream, destination: CUdeviceptr_v2, source: CUdeviceptr_v2, bytes: usize) {
    // SAFETY: the caller vouches for the memory; the stream is borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuMemcpyDtoDAsync)(destination, source, bytes, stream.as_raw()) });
}

/// # Safety
/// As for the driver's call: the place holds so many bytes, until the fill is done.
#[inline(always)]
pub(crate) unsafe fn fill(stream: &Stream, destination: CUdeviceptr_v2, value: u8, bytes: usize) {
    // SAFETY: the caller vouches for the memory; the stream is borrowed, hence live.
    ok(unsafe { (stream.driver().functions().cuMemsetD8Async)(destination, value, bytes, stream.as_raw()) });
}

/// Ends the bench unless the call has succeeded.
#[inline(always)]
pub(crate) fn ok(code: CUresult) {
    if code != CUresult::CUDA_SUCCESS {
        failed(&format!("a raw call was answered with {} ({})", code.name().unwrap_or("a code"), code.0));
    }
}

/// Ends the bench unless there is a value.
#[inline(always)]
pub(crate) fn must<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => failed(&error),
    }
}

#[cold]
#[inline(never)]
fn failed(why: &dyn std::fmt::Display) -> ! {
    println!("{why}");
    std::process::exit(1);
}
