//! Contexts: the primary ones, and which is current.

use cuda_sys::{CUcontext, CUdevice, Functions};

use super::{call, out};
use crate::{Result, release};

pub(crate) fn device_primary_ctx_retain(functions: &Functions, device: CUdevice) -> Result<CUcontext> {
    // SAFETY: the driver writes the context when it answers success.
    unsafe { out(|context| call!(functions, cuDevicePrimaryCtxRetain(context, device))) }
}

/// # Safety
/// The caller must own one retain of the device's primary context, and gives it up.
pub(crate) unsafe fn device_primary_ctx_release(functions: &Functions, device: CUdevice) -> Result<()> {
    call!(functions, cuDevicePrimaryCtxRelease(device))
}

/// Whether anybody retains the device's primary context.
pub(crate) fn device_primary_ctx_is_active(functions: &Functions, device: CUdevice) -> Result<bool> {
    let (mut flags, mut active) = (0, 0);
    call!(functions, cuDevicePrimaryCtxGetState?(device, &raw mut flags, &raw mut active))?;
    Ok(active != 0)
}

/// The calling thread's current context; null if it has none.
pub(crate) fn ctx_get_current(functions: &Functions) -> Result<CUcontext> {
    // SAFETY: the driver writes the context when it answers success.
    unsafe { out(|context| call!(functions, cuCtxGetCurrent?(context))) }
}

/// The current context's device.
pub(crate) fn ctx_get_device(functions: &Functions) -> Result<CUdevice> {
    // SAFETY: the driver writes the device when it answers success.
    unsafe { out(|device| call!(functions, cuCtxGetDevice?(device))) }
}

/// The memory of the current context's device in bytes: free and total.
pub(crate) fn mem_get_info(functions: &Functions) -> Result<(usize, usize)> {
    let (mut free, mut total) = (0, 0);
    call!(functions, cuMemGetInfo?(&raw mut free, &raw mut total))?;
    Ok((free, total))
}

/// Waits for all work of the current context.
pub(crate) fn ctx_synchronize(functions: &Functions) -> Result<()> {
    call!(functions, cuCtxSynchronize?())
}

/// The least and the greatest priority of the current context's device; the greater is the smaller number.
pub(crate) fn ctx_get_stream_priority_range(functions: &Functions) -> Result<(i32, i32)> {
    let (mut least, mut greatest) = (0, 0);
    call!(functions, cuCtxGetStreamPriorityRange?(&raw mut least, &raw mut greatest))?;
    Ok((least, greatest))
}

/// Runs `work` with `context` current, and leaves the thread's own current context as it was.
///
/// # Safety
/// `context` must be live.
pub(crate) unsafe fn with_current<T>(
    functions: &Functions,
    context: CUcontext,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    /// Pops also when `work` unwinds.
    struct Pop<'a>(&'a Functions);
    impl Drop for Pop<'_> {
        fn drop(&mut self) {
            let mut popped = core::ptr::null_mut();
            release::report(call!(self.0, cuCtxPopCurrent(&raw mut popped)));
        }
    }

    call!(functions, cuCtxPushCurrent(context))?;
    let _pop = Pop(functions);
    work()
}
