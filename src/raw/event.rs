//! Events.

use cuda_sys::{CUevent, CUevent_flags_enum, CUstream, Functions};

use super::{
    call, out,
    stream::{ready, relaxed},
};
use crate::{DriverError, Result};

/// # Safety
/// The current context must be the one that the event is to belong to.
pub(crate) unsafe fn event_create(functions: &Functions, flags: CUevent_flags_enum) -> Result<CUevent> {
    // SAFETY: the driver writes the handle when it answers success.
    unsafe { out(|event| call!(functions, cuEventCreate(event, flags.0))) }
}

/// # Safety
/// `event` must be live and not be used afterwards.
pub(crate) unsafe fn event_destroy(functions: &Functions, event: CUevent) -> Result<()> {
    call!(functions, cuEventDestroy(event))
}

/// # Safety
/// `event` and `stream` must be live.
#[inline]
pub(crate) unsafe fn event_record(functions: &Functions, event: CUevent, stream: CUstream) -> Result<()> {
    call!(functions, cuEventRecord(event, stream))
}

/// Records `event` on one stream and has the other wait for it. The caller has asked the gate.
///
/// # Safety
/// All three must be live.
#[inline]
pub(crate) unsafe fn fence(
    functions: &Functions,
    event: CUevent,
    earlier: CUstream,
    later: CUstream,
) -> Result<(), DriverError> {
    call!(open functions, cuEventRecord(event, earlier))?;
    call!(open functions, cuStreamWaitEvent(later, event, 0))
}

/// Whether the recorded work is done; true if nothing was ever recorded.
///
/// # Safety
/// `event` must be live.
pub(crate) unsafe fn event_query(functions: &Functions, event: CUevent) -> Result<bool> {
    ready(relaxed(functions, || call!(functions, cuEventQuery(event))))
}

/// # Safety
/// `event` must be live.
pub(crate) unsafe fn event_synchronize(functions: &Functions, event: CUevent) -> Result<()> {
    relaxed(functions, || call!(functions, cuEventSynchronize(event)))
}

/// Milliseconds from `start` to `end`.
///
/// # Safety
/// Both must be live.
pub(crate) unsafe fn event_elapsed_time(functions: &Functions, start: CUevent, end: CUevent) -> Result<f32> {
    // SAFETY: the driver writes the time when it answers success.
    unsafe { out(|milliseconds| call!(functions, cuEventElapsedTime?(milliseconds, start, end))) }
}
