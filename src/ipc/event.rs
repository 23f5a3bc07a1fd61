//! Events that several processes record and wait for.

use core::{fmt, ops::Deref};
use std::process;

use cuda_sys::{CUevent_flags_enum, CUresult};

use super::handle::{Reader, Writer};
use crate::{Context, Error, Event, Result, raw, raw::ipc::HANDLE_LEN};

const MAGIC: [u8; 8] = *b"cupoolXE";

/// An event that other processes can open; derefs to [`Event`], and has no clock.
///
/// Whichever process records it, all that wait for it wait for what was marked last *when they begin to wait*. So it
/// takes a message on some other channel to say that it has been recorded.
#[derive(Debug)]
pub struct InterprocessEvent(Event);

impl InterprocessEvent {
    /// Makes an event.
    ///
    /// # Errors
    /// [`Error::InterprocessEventsUnsupported`], [`Error::NotPrimary`] if `context` is not a primary one; else whatever
    /// the driver answers.
    #[doc(alias = "cuEventCreate")]
    #[doc(alias = "CU_EVENT_INTERPROCESS")]
    pub fn new(context: &Context) -> Result<Self> {
        ensure_supported(context)?;
        let flags = CUevent_flags_enum::CU_EVENT_INTERPROCESS.0 | CUevent_flags_enum::CU_EVENT_DISABLE_TIMING.0;
        let functions = context.driver().functions();
        Self::made_in(context, || {
            // SAFETY: `made_in` makes the event's context the current one.
            unsafe { raw::event::event_create(functions, CUevent_flags_enum(flags)) }
        })
    }

    /// Describes the event for another process. The event must stay for as long as anybody uses one that was opened by
    /// this handle.
    ///
    /// # Errors
    /// Whatever the driver answers, also if the event was itself opened.
    #[doc(alias = "cuIpcGetEventHandle")]
    #[doc(alias = "cudaIpcGetEventHandle")]
    pub fn export(&self) -> Result<EventHandle> {
        let functions = self.0.driver().functions();
        let data = self.0.context().with_current(|| {
            // SAFETY: the event is borrowed, hence live.
            unsafe { raw::ipc::ipc_get_event_handle(functions, self.0.as_raw()) }
        })?;
        Ok(EventHandle { data, process: process::id() })
    }

    /// Opens another process's event.
    ///
    /// # Errors
    /// [`Error::OwnEvent`] in the process that exported it, which the driver refuses;
    /// [`Error::InterprocessEventsUnsupported`]; else whatever the driver answers.
    ///
    /// # Safety
    /// The handle must come, unchanged, from [`export`](Self::export) in a process that keeps the event until this one
    /// has been used for the last time: the driver does not promise to notice its end.
    #[doc(alias = "cuIpcOpenEventHandle")]
    #[doc(alias = "cudaIpcOpenEventHandle")]
    pub unsafe fn open(context: &Context, handle: &EventHandle) -> Result<Self> {
        ensure_supported(context)?;
        let functions = context.driver().functions();
        Self::made_in(context, || {
            // SAFETY: `made_in` makes the event's context the current one.
            let opened = unsafe { raw::ipc::ipc_open_event_handle(functions, &handle.data) };
            opened.map_err(|error| match error.code() {
                // A context is current, so the driver means the process. The number alone would not tell: processes
                // in different containers may have the same.
                Some(CUresult::CUDA_ERROR_INVALID_CONTEXT) if handle.process == process::id() => Error::OwnEvent,
                _ => error,
            })
        })
    }

    fn made_in(context: &Context, make: impl FnOnce() -> Result<cuda_sys::CUevent>) -> Result<Self> {
        let context = context.try_clone()?;
        let raw = context.with_current(make)?;
        // SAFETY: the event was just made in this context, and nobody else has it.
        Ok(Self(unsafe { Event::from_raw_parts(raw, context) }))
    }
}

impl Deref for InterprocessEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.0
    }
}

/// A driver that does not know the question (it is older than CUDA 12.0) is tried.
fn ensure_supported(context: &Context) -> Result<()> {
    let device = context.device();
    match device.ipc_event_supported() {
        Ok(false) => Err(Error::InterprocessEventsUnsupported { device: device.as_raw() }),
        Err(error) if error.code() != Some(CUresult::CUDA_ERROR_INVALID_VALUE) => Err(error),
        _ => Ok(()),
    }
}

/// An event as another process can open it: plain bytes, which own nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventHandle {
    data: [u8; HANDLE_LEN],
    process: u32,
}

impl EventHandle {
    /// Number of bytes that it is written as.
    pub const BYTES: usize = 8 + 4 + 4 + HANDLE_LEN;

    /// As bytes, to be sent to another process on this host.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put_header(MAGIC);
        writer.put(&self.process.to_le_bytes());
        writer.put(&self.data);
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// [`Error::MalformedHandle`] if the bytes are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        reader.take_header(MAGIC)?;
        let process = u32::from_le_bytes(reader.take()?);
        let data = reader.take()?;
        reader.end()?;
        Ok(Self { data, process })
    }
}

impl fmt::Debug for EventHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandle").field("process", &self.process).finish_non_exhaustive()
    }
}
