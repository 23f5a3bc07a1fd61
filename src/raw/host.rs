//! Page-locked host memory.

use core::ffi::c_void;

use cuda_sys::{CUdeviceptr_v2, Functions, Symbol};

use super::{call, out, stream::relaxed};
use crate::{Error, Result};

/// Page-locked memory of `bytes` bytes, cached as ordinary memory is.
///
/// # Safety
/// The current context must be the one that is to own the memory.
pub(crate) unsafe fn mem_host_alloc(functions: &Functions, bytes: usize) -> Result<*mut c_void> {
    // What could not be freed again is not allocated.
    if functions.cuMemFreeHost.is_none() {
        return Err(Error::Unsupported(Symbol::cuMemFreeHost));
    }
    // SAFETY: the driver writes the address when it answers success.
    relaxed(functions, || unsafe {
        out(|address| call!(functions, cuMemHostAlloc?(address, bytes, cuda_sys::CU_MEMHOSTALLOC_PORTABLE)))
    })
}

/// # Safety
/// `address` must come from [`mem_host_alloc`], and not be used afterwards by anybody.
pub(crate) unsafe fn mem_free_host(functions: &Functions, address: *mut c_void) -> Result<()> {
    relaxed(functions, || call!(functions, cuMemFreeHost?(address)))
}

/// The address under which the current context's device reaches page-locked memory.
///
/// # Safety
/// `address` must be page-locked memory that is live.
pub(crate) unsafe fn mem_host_get_device_pointer(
    functions: &Functions,
    address: *mut c_void,
) -> Result<CUdeviceptr_v2> {
    // SAFETY: the driver writes the address when it answers success.
    unsafe { out(|device| call!(functions, cuMemHostGetDevicePointer?(device, address, 0))) }
}

/// Makes `bytes` bytes at `address` page-locked where they are.
///
/// # Safety
/// The memory must be live, and stay so until it is unregistered. The current context must be the one that is to know
/// of it.
pub(crate) unsafe fn mem_host_register(functions: &Functions, address: *mut c_void, bytes: usize) -> Result<()> {
    // What could not be unregistered again is not registered.
    if functions.cuMemHostUnregister.is_none() {
        return Err(Error::Unsupported(Symbol::cuMemHostUnregister));
    }
    relaxed(functions, || call!(functions, cuMemHostRegister?(address, bytes, cuda_sys::CU_MEMHOSTREGISTER_PORTABLE)))
}

/// # Safety
/// `address` must be registered by [`mem_host_register`].
pub(crate) unsafe fn mem_host_unregister(functions: &Functions, address: *mut c_void) -> Result<()> {
    relaxed(functions, || call!(functions, cuMemHostUnregister?(address)))
}
