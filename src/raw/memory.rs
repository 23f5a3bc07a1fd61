//! Stream-ordered allocation, copies and fills.

use core::ffi::c_void;

use cuda_sys::{CUcontext, CUdeviceptr_v2, CUmemoryPool, CUresult, CUstream, Functions};

use super::{call, out};
use crate::{DriverError, Error, Result};

/// # Safety
/// `pool` and `stream` must be live, and the gate open.
#[inline(always)]
pub(crate) unsafe fn mem_alloc_from_pool_async(
    functions: &Functions,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> Result<CUdeviceptr_v2, DriverError> {
    // SAFETY: the driver writes the address when it answers success.
    unsafe { out(|address| call!(open functions, cuMemAllocFromPoolAsync(address, bytes, pool, stream))) }
}

/// From whichever pool is current on the stream's device.
///
/// # Safety
/// `stream` must be live.
#[inline]
pub(crate) unsafe fn mem_alloc_async(functions: &Functions, bytes: usize, stream: CUstream) -> Result<CUdeviceptr_v2> {
    // SAFETY: the driver writes the address when it answers success.
    unsafe { out(|address| call!(functions, cuMemAllocAsync?(address, bytes, stream))) }
}

/// # Safety
/// `address` must be a live stream-ordered allocation that nothing uses after this point of `stream`'s order, and
/// `stream` must be live. The gate must be open.
#[inline(always)]
pub(crate) unsafe fn mem_free_async(
    functions: &Functions,
    address: CUdeviceptr_v2,
    stream: CUstream,
) -> Result<(), DriverError> {
    call!(open functions, cuMemFreeAsync(address, stream))
}

/// # Safety
/// `destination` must be valid for `bytes` in `stream`'s order, and `source` readable until the copy is done.
pub(crate) unsafe fn memcpy_htod_async(
    functions: &Functions,
    destination: CUdeviceptr_v2,
    source: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> Result<()> {
    match call!(functions, cuMemcpyHtoDAsync(destination, source, bytes, stream)) {
        Ok(()) => Ok(()),
        Err(error) => any_way(error, || {
            call!(functions, cuMemcpyAsync?(destination, source.expose_provenance() as u64, bytes, stream))
        }),
    }
}

/// # Safety
/// `source` must be valid for `bytes` in `stream`'s order, and `destination` writable, and not looked at, until the
/// copy is done.
pub(crate) unsafe fn memcpy_dtoh_async(
    functions: &Functions,
    destination: *mut c_void,
    source: CUdeviceptr_v2,
    bytes: usize,
    stream: CUstream,
) -> Result<()> {
    match call!(functions, cuMemcpyDtoHAsync(destination, source, bytes, stream)) {
        Ok(()) => Ok(()),
        Err(error) => any_way(error, || {
            call!(functions, cuMemcpyAsync?(destination.expose_provenance() as u64, source, bytes, stream))
        }),
    }
}

/// # Safety
/// Both addresses must be valid for `bytes` in `stream`'s order.
#[inline]
pub(crate) unsafe fn memcpy_dtod_async(
    functions: &Functions,
    destination: CUdeviceptr_v2,
    source: CUdeviceptr_v2,
    bytes: usize,
    stream: CUstream,
) -> Result<()> {
    match call!(functions, cuMemcpyDtoDAsync(destination, source, bytes, stream)) {
        Ok(()) => Ok(()),
        Err(error) => any_way(error, || call!(functions, cuMemcpyAsync?(destination, source, bytes, stream))),
    }
}

/// Memory of a pool on the host is not device memory to the calls that say which side is which: they refuse it, and do
/// nothing. The one that finds that out by itself takes it.
#[cold]
#[inline(never)]
fn any_way(error: Error, undirected: impl FnOnce() -> Result<()>) -> Result<()> {
    if error.code() != Some(CUresult::CUDA_ERROR_INVALID_VALUE) {
        return Err(error);
    }
    match undirected() {
        // A driver without it, and a value that is wrong in any case.
        Err(Error::Unsupported(_)) => Err(error),
        Err(other) if other.code() == error.code() => Err(error),
        copied => copied,
    }
}

/// # Safety
/// Both addresses must be valid for `bytes` in `stream`'s order, and both contexts live.
pub(crate) unsafe fn memcpy_peer_async(
    functions: &Functions,
    (destination, to): (CUdeviceptr_v2, CUcontext),
    (source, from): (CUdeviceptr_v2, CUcontext),
    bytes: usize,
    stream: CUstream,
) -> Result<()> {
    call!(functions, cuMemcpyPeerAsync?(destination, to, source, from, bytes, stream))
}

/// # Safety
/// `address` must be valid for `count` bytes in `stream`'s order.
#[inline]
pub(crate) unsafe fn memset_d8_async(
    functions: &Functions,
    address: CUdeviceptr_v2,
    value: u8,
    count: usize,
    stream: CUstream,
) -> Result<()> {
    call!(functions, cuMemsetD8Async(address, value, count, stream))
}

/// # Safety
/// `address` must be valid for `count` times 2 bytes in `stream`'s order.
#[inline]
pub(crate) unsafe fn memset_d16_async(
    functions: &Functions,
    address: CUdeviceptr_v2,
    value: u16,
    count: usize,
    stream: CUstream,
) -> Result<()> {
    call!(functions, cuMemsetD16Async(address, value, count, stream))
}

/// # Safety
/// `address` must be valid for `count` times 4 bytes in `stream`'s order.
#[inline]
pub(crate) unsafe fn memset_d32_async(
    functions: &Functions,
    address: CUdeviceptr_v2,
    value: u32,
    count: usize,
    stream: CUstream,
) -> Result<()> {
    call!(functions, cuMemsetD32Async(address, value, count, stream))
}
