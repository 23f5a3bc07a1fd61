//! Streams.

use core::ffi::{c_int, c_void};

use cuda_sys::{
    CUcontext, CUevent, CUresult, CUstream, CUstream_flags_enum, CUstreamCaptureMode, CUstreamCaptureStatus, Functions,
};

use super::{call, out};
use crate::{Error, Result, capture_mode, gate, release};

/// # Safety
/// The current context must be the one that the stream is to belong to.
pub(crate) unsafe fn stream_create_with_priority(
    functions: &Functions,
    flags: CUstream_flags_enum,
    priority: c_int,
) -> Result<CUstream> {
    // SAFETY: the driver writes the handle when it answers success.
    unsafe { out(|stream| call!(functions, cuStreamCreateWithPriority(stream, flags.0, priority))) }
}

/// # Safety
/// `stream` must be live and not be used afterwards.
pub(crate) unsafe fn stream_destroy(functions: &Functions, stream: CUstream) -> Result<()> {
    call!(functions, cuStreamDestroy(stream))
}

/// Whether all work is done.
///
/// # Safety
/// `stream` must be live.
#[inline]
pub(crate) unsafe fn stream_query(functions: &Functions, stream: CUstream) -> Result<bool> {
    if gate::is_open() {
        return ready(call!(open functions, cuStreamQuery(stream)).map_err(Error::Driver));
    }
    ready(relaxed_if_asked(functions, || call!(functions, cuStreamQuery(stream))))
}

/// # Safety
/// `stream` must be live.
#[inline]
pub(crate) unsafe fn stream_synchronize(functions: &Functions, stream: CUstream) -> Result<()> {
    if gate::is_open() {
        return Ok(call!(open functions, cuStreamSynchronize(stream))?);
    }
    relaxed_if_asked(functions, || call!(functions, cuStreamSynchronize(stream)))
}

/// # Safety
/// `stream` and `event` must be live.
#[inline]
pub(crate) unsafe fn stream_wait_event(functions: &Functions, stream: CUstream, event: CUevent) -> Result<()> {
    call!(functions, cuStreamWaitEvent(stream, event, 0))
}

/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_get_ctx(functions: &Functions, stream: CUstream) -> Result<CUcontext> {
    // SAFETY: the driver writes the context when it answers success.
    unsafe { out(|context| call!(functions, cuStreamGetCtx?(stream, context))) }
}

/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_get_id(functions: &Functions, stream: CUstream) -> Result<u64> {
    // SAFETY: the driver writes the number when it answers success.
    unsafe { out(|id| call!(functions, cuStreamGetId?(stream, id))) }
}

/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_get_flags(functions: &Functions, stream: CUstream) -> Result<CUstream_flags_enum> {
    // SAFETY: the driver writes the flags when it answers success.
    unsafe { out(|flags| call!(functions, cuStreamGetFlags?(stream, flags))) }.map(CUstream_flags_enum)
}

/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_get_priority(functions: &Functions, stream: CUstream) -> Result<c_int> {
    // SAFETY: the driver writes the priority when it answers success.
    unsafe { out(|priority| call!(functions, cuStreamGetPriority?(stream, priority))) }
}

/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_is_capturing(functions: &Functions, stream: CUstream) -> Result<CUstreamCaptureStatus> {
    // SAFETY: the driver writes the status when it answers success.
    unsafe { out(|status| call!(functions, cuStreamIsCapturing?(stream, status))) }
}

/// # Safety
/// `stream` must be live, and `function` callable with `data`, once, on any thread.
pub(crate) unsafe fn launch_host_func(
    functions: &Functions,
    stream: CUstream,
    function: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Result<()> {
    call!(functions, cuLaunchHostFunc?(stream, Some(function), data))
}

/// Runs `work` so that it cannot invalidate somebody's capture in this process.
///
/// While another thread captures in global mode the driver refuses many calls that touch no capturing stream (questions
/// to events and waits for them, pool attributes and trims, page-locked memory), and ends that capture in an error. The
/// relaxed mode lifts that for this thread.
pub(crate) fn relaxed<R>(functions: &Functions, work: impl FnOnce() -> R) -> R {
    let (result, restored) = relaxed_unreported(functions, work);
    release::report(restored);
    result
}

/// The same under a lock, which must be let go of before the second answer, whether the mode is restored, is reported:
/// that may call anybody's code.
pub(crate) fn relaxed_unreported<R>(functions: &Functions, work: impl FnOnce() -> R) -> (R, Result<()>) {
    /// Restores the thread's mode when `work` unwinds.
    struct Restore<'a>(&'a Functions, CUstreamCaptureMode);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            release::report(exchange(self.0, &mut self.1));
        }
    }
    fn exchange(functions: &Functions, mode: &mut CUstreamCaptureMode) -> Result<()> {
        call!(functions, cuThreadExchangeStreamCaptureMode?(mode))
    }

    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    match exchange(functions, &mut mode) {
        // A driver without the modes has no capture to spoil; and what is to be released must be, whatever the mode.
        Err(_) => (work(), Ok(())),
        Ok(()) => {
            let mut restore = Restore(functions, mode);
            let result = work();
            let restored = exchange(functions, &mut restore.1);
            core::mem::forget(restore);
            (result, restored)
        }
    }
}

/// The same for calls that are too frequent for it, where [`RelaxedCaptureMode`](crate::RelaxedCaptureMode) asks for it.
#[inline]
pub(crate) fn relaxed_if_asked<R>(functions: &Functions, work: impl FnOnce() -> R) -> R {
    if capture_mode::is_asked_for(functions) { relaxed(functions, work) } else { work() }
}

/// Tells "not yet" from failure.
#[inline(always)]
pub(super) fn ready(answer: Result<()>) -> Result<bool> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) => not_ready(error),
    }
}

#[inline(never)]
fn not_ready(error: Error) -> Result<bool> {
    if error.code() == Some(CUresult::CUDA_ERROR_NOT_READY) { Ok(false) } else { Err(error) }
}
