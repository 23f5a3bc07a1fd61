//! The stream on which a consumer uses what it is given, and order with it: before and after.

use core::{num::NonZero, ptr};

use cuda_sys::{CUresult, CUstream, CUstream_st, CUstreamCaptureStatus};

use super::DlpackError;
use crate::{Error, Result, Stream, foreign::retired::Marker, raw};

/// The stream on which a consumer uses an exported tensor: up to the call of the deleter, all its work must be ordered
/// on this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerStream {
    first: Named,
    last: Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// The buffer's own.
    Home,
    /// Nobody knows.
    Unknown,
    /// By its handle, in whatever context is current.
    Handle(Handle),
}

/// A handle as a number, so that it can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handle(NonZero<usize>);

impl Handle {
    /// The stream that orders itself with all streams of its context that were not made otherwise.
    const LEGACY: Self = Self(NonZero::<usize>::MIN);
    /// Another stream on each thread; ordered with the legacy one.
    const PER_THREAD: Self = Self(NonZero::<usize>::MIN.saturating_add(1));

    const fn as_raw(self) -> CUstream {
        ptr::without_provenance_mut::<CUstream_st>(self.0.get())
    }
}

impl ConsumerStream {
    /// The buffer's home stream: the consumer enqueues its work there. Nothing has to be ordered.
    pub const HOME: Self = Self { first: Named::Home, last: Named::Home };

    /// The legacy default stream, which PyTorch and CuPy use unless told otherwise.
    pub const LEGACY: Self = Self { first: Named::Handle(Handle::LEGACY), last: Named::Handle(Handle::LEGACY) };

    /// The default stream of the thread that exports. The deleter may be called on another thread, where that handle
    /// is another stream, so it waits for the legacy default stream, which waits for those of all threads.
    pub const PER_THREAD: Self = Self { first: Named::Handle(Handle::PER_THREAD), last: Named::Handle(Handle::LEGACY) };

    /// Any stream: the consumer orders the beginning of its work itself. At the end the host waits for all work of
    /// the context.
    pub const UNKNOWN: Self = Self { first: Named::Unknown, last: Named::Unknown };

    /// A stream of another library, or a default stream by the handle that the driver's calls take for it.
    ///
    /// # Safety
    /// `stream` must be a stream of the buffer's context, and live until the tensor's deleter has returned: true of
    /// PyTorch's streams, which are never destroyed. For others see [`until_export`](Self::until_export).
    #[must_use]
    pub unsafe fn from_raw(stream: CUstream) -> Self {
        match NonZero::new(stream.addr()).map(Handle) {
            None | Some(Handle::LEGACY) => Self::LEGACY,
            Some(Handle::PER_THREAD) => Self::PER_THREAD,
            Some(handle) => Self { first: Named::Handle(handle), last: Named::Handle(handle) },
        }
    }

    /// The stream that the argument `stream` of Python's `__dlpack__` names: 1 is the legacy default stream, 2 that of
    /// the thread, -1 stands for no order, others are handles.
    ///
    /// # Errors
    /// [`DlpackError::Stream`] for 0, which the protocol forbids as it could mean two streams, and for numbers that are
    /// no handle.
    ///
    /// # Safety
    /// As [`from_raw`](Self::from_raw) if it is a handle.
    pub unsafe fn from_protocol(stream: i64) -> Result<Self> {
        match stream {
            -1 => Ok(Self::UNKNOWN),
            _ => match usize::try_from(stream) {
                // SAFETY: as the caller says.
                Ok(handle) if handle != 0 => Ok(unsafe { Self::from_raw(ptr::without_provenance_mut(handle)) }),
                _ => Err(DlpackError::Stream(stream).into()),
            },
        }
    }

    /// The same stream, which may be gone when the deleter is called: then the host waits for all work of the context
    /// instead. With this, a handle need live no longer than until the export.
    #[must_use]
    pub const fn until_export(self) -> Self {
        Self { first: self.first, last: Named::Unknown }
    }

    /// Whether an event is needed at the beginning or at the end.
    pub(super) fn needs_marker(self) -> bool {
        [self.first, self.last].iter().any(|named| matches!(named, Named::Handle(_)))
    }

    /// What the consumer does comes after all that `home` was given.
    pub(super) fn begin(self, home: &Stream, marker: Option<&Marker>) -> Result<()> {
        home.ensure_ordered()?;
        let (Named::Handle(handle), Some(marker)) = (self.first, marker) else { return Ok(()) };
        home.ensure_not_capturing()?;
        fence(home, marker, home.as_raw(), handle.as_raw(), handle.as_raw())
    }

    /// What `home` gets from now on comes after all that the consumer has done; if that cannot be said on the device,
    /// the host waits.
    pub(super) fn end(self, home: &Stream, marker: Option<&Marker>) -> Result<()> {
        home.ensure_ordered()?;
        let waited = |error: Error| wait_for_all(home).map_err(|_| error);
        match (self.last, marker) {
            (Named::Home, _) => Ok(()),
            (Named::Handle(handle), Some(marker)) => {
                match home
                    .ensure_not_capturing()
                    .and_then(|()| fence(home, marker, handle.as_raw(), home.as_raw(), handle.as_raw()))
                {
                    // To wait would spoil the capture, and not help: what was captured has yet to run.
                    Err(Error::StreamCapturing) => Err(Error::StreamCapturing),
                    fenced => fenced.or_else(waited),
                }
            }
            (Named::Unknown | Named::Handle(_), _) => wait_for_all(home),
        }
    }
}

/// What `later` gets from now on comes after all that `earlier` was given. One of them is `home`, the other `theirs`,
/// which may be a default stream: those are of the current context.
fn fence(home: &Stream, marker: &Marker, earlier: CUstream, later: CUstream, theirs: CUstream) -> Result<()> {
    let functions = home.driver().functions();
    home.context().with_current(|| {
        // SAFETY: a default stream is always there, others live as whoever named them says.
        match unsafe { raw::stream::stream_is_capturing(functions, theirs) } {
            Ok(CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE) | Err(Error::Unsupported(_)) => {}
            Ok(_) => return Err(Error::StreamCapturing),
            // The legacy default stream cannot be used beside a capture of a stream that waits for it.
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) => {
                return Err(Error::StreamCapturing);
            }
            Err(error) => return Err(error),
        }
        // SAFETY: both streams are live, as above; the marker is nobody else's, and of this context.
        unsafe {
            raw::event::event_record(functions, marker.as_raw(), earlier)?;
            raw::stream::stream_wait_event(functions, later, marker.as_raw())
        }
    })
}

/// Waits on the host for all streams of the context.
fn wait_for_all(home: &Stream) -> Result<()> {
    raw::stream::relaxed(home.driver().functions(), || home.context().synchronize())
}
