//! Streams: queues of device work, and the ways a buffer can hold on to one.

use core::{
    fmt,
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    ops::Deref,
    ptr,
};
use std::{rc::Rc, sync::Arc};

use cuda_sys::{CUevent, CUevent_flags_enum, CUevent_st, CUstream, CUstream_flags_enum, CUstreamCaptureStatus};

use crate::{
    Context, Driver, Error, Event, Result, capture_mode,
    deferred::Deferred,
    gate, order, raw, release,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

/// A stream: work enqueued on it runs in order.
///
/// It shares its context. It may be shared between threads; what each enqueues is then ordered as the calls
/// happened. Destroying a stream does not wait: work still on it runs to its end.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let (produce, consume) = (Stream::new(&context)?, Stream::new(&context)?);
/// // Whatever `consume` is given from now on comes after all that `produce` was given so far.
/// consume.wait_for(&produce)?;
/// consume.synchronize()?;
/// assert!(consume.query()?);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "cuStreamDestroy")]
pub struct Stream {
    raw: CUstream,
    /// The context's, kept here for the calls that cost little.
    driver: Driver,
    context: ManuallyDrop<Context>,
    /// Made when another stream first has to wait for this one; null until then.
    fence: AtomicPtr<CUevent_st>,
    pub(crate) order_lost: AtomicBool,
    pub(crate) deferred: Deferred,
    /// Made for a capture of this crate's, and never used for anything else: what would be ordered with other streams,
    /// or is not work of a graph's, is refused on it.
    captured: bool,
    serial: u64,
}

// SAFETY: stream and event handles may be used from every thread, and the driver does its own locking.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// How a stream is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Whether the stream waits for, and holds up, the legacy default stream (the "null" stream). Off unless asked
    /// for: work that anybody in the process puts there would serialise with this stream's.
    pub blocking: bool,
    /// The smaller, the more urgent; see [`Context::stream_priority_range`], to which the driver clamps it.
    pub priority: i32,
}

impl Stream {
    /// Makes a stream that ignores the legacy default stream, with the default priority.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::NotPrimary`] if `context` is not a primary one.
    #[doc(alias = "cuStreamCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_options(context, StreamOptions::default())
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(alias = "cuStreamCreateWithPriority")]
    pub fn with_options(context: &Context, options: StreamOptions) -> Result<Self> {
        let flags = if options.blocking {
            CUstream_flags_enum::CU_STREAM_DEFAULT
        } else {
            CUstream_flags_enum::CU_STREAM_NON_BLOCKING
        };
        let context = context.try_clone()?;
        let functions = context.driver().functions();
        // SAFETY: `with_current` makes the stream's context the current one.
        let raw = context
            .with_current(|| unsafe { raw::stream::stream_create_with_priority(functions, flags, options.priority) })?;
        // SAFETY: the stream was just made in this context, and nobody else has it.
        Ok(unsafe { Self::from_raw_parts(raw, context) })
    }

    /// The driver's handle. Who captures the stream with it needs a [`RelaxedCaptureMode`](crate::RelaxedCaptureMode).
    #[must_use]
    #[inline]
    pub const fn as_raw(&self) -> CUstream {
        self.raw
    }

    /// Gives up the stream and the retain of its context.
    #[must_use = "the stream stays alive"]
    pub fn into_raw_parts(self) -> (CUstream, Context) {
        let mut this = ManuallyDrop::new(self);
        this.end();
        // SAFETY: `this` is never used or dropped again.
        (this.raw, unsafe { ManuallyDrop::take(&mut this.context) })
    }

    /// Takes over the stream `raw` of `context`.
    ///
    /// # Safety
    /// `raw` must be a live stream that was created in `context` (not one of the default streams), and the caller
    /// must own it. While anybody captures it there must be a [`RelaxedCaptureMode`](crate::RelaxedCaptureMode).
    #[must_use]
    pub unsafe fn from_raw_parts(raw: CUstream, context: Context) -> Self {
        Self::new_in(raw, ManuallyDrop::new(context))
    }

    fn new_in(raw: CUstream, context: ManuallyDrop<Context>) -> Self {
        // Std's, since it belongs to the whole process.
        static MADE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let driver = context.driver();
        Self {
            raw,
            driver,
            context,
            fence: AtomicPtr::new(ptr::null_mut()),
            order_lost: AtomicBool::new(false),
            deferred: Deferred::new(),
            captured: false,
            serial: MADE.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A stream for a capture.
    pub(crate) fn for_capture(context: &Context) -> Result<Self> {
        let mut stream = Self::new(context)?;
        stream.captured = true;
        Ok(stream)
    }

    /// The stream's context.
    #[must_use]
    #[inline]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The driver it belongs to.
    #[must_use]
    #[inline]
    pub const fn driver(&self) -> Driver {
        self.driver
    }

    /// Whether both are the same stream of the same driver.
    #[must_use]
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        ptr::eq(self, other) || (self.raw == other.raw && self.driver() == other.driver())
    }

    /// A number that no other value of this type ever has, in this process: what was enqueued through a value of the same
    /// number is on this stream. Handles are reused.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Waits on the host until all work enqueued so far is done.
    ///
    /// # Errors
    /// [`Error::StreamCapturing`] for the stream of a [`Capture`](crate::Capture), and while there is a
    /// [`RelaxedCaptureMode`](crate::RelaxedCaptureMode) for any stream that is being captured, whose capture the call would
    /// end in an error: without one nobody asks, since asking costs a call. Else whatever the driver answers. A fault of
    /// earlier work surfaces here; see [`Error::is_sticky`].
    #[doc(alias = "cuStreamSynchronize")]
    #[inline]
    pub fn synchronize(&self) -> Result<()> {
        self.prepare_to_wait()?;
        self.synchronize_at_once()
    }

    #[inline]
    fn prepare_to_wait(&self) -> Result<()> {
        self.ensure_not_captured()?;
        if gate::is_open() { Ok(()) } else { self.prepare_to_wait_warily() }
    }

    /// Before a wait where something is out of the ordinary.
    #[cold]
    fn prepare_to_wait_warily(&self) -> Result<()> {
        self.free_deferred();
        self.ensure_not_expected_to_capture()
    }

    /// The same, of a stream that is known not to be captured, or that must be waited for in any case.
    #[inline]
    pub(crate) fn synchronize_at_once(&self) -> Result<()> {
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        unsafe { raw::stream::stream_synchronize(self.driver().functions(), self.raw) }
    }

    /// Whether all work enqueued so far is done.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    #[doc(alias = "cuStreamQuery")]
    #[inline]
    pub fn query(&self) -> Result<bool> {
        self.prepare_to_wait()?;
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        unsafe { raw::stream::stream_query(self.driver().functions(), self.raw) }
    }

    /// Makes work enqueued from now on wait until `event`'s last recording is done; an event that was never recorded
    /// counts as done. The host does not wait.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::DriverMismatch`]; [`Error::StreamCapturing`] for the stream of a
    /// [`Capture`](crate::Capture).
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.ensure_not_captured()?;
        self.driver().ensure_same(event.driver())?;
        // SAFETY: both are borrowed, hence live.
        unsafe { raw::stream::stream_wait_event(self.driver().functions(), self.raw, event.as_raw()) }
    }

    /// Makes work enqueued from now on wait until all work enqueued on `other` so far is done. The host does not wait.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait_for(&self, other: &Self) -> Result<()> {
        order::fence(other, self)
    }

    /// A number that no other stream of this process ever has; handles are reused, these are not.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before CUDA 12.0.
    #[doc(alias = "cuStreamGetId")]
    pub fn id(&self) -> Result<u64> {
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        unsafe { raw::stream::stream_get_id(self.driver().functions(), self.raw) }
    }

    /// How the stream was made, as the driver tells it.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuStreamGetFlags")]
    #[doc(alias = "cuStreamGetPriority")]
    pub fn options(&self) -> Result<StreamOptions> {
        let functions = self.driver().functions();
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        let (flags, priority) = unsafe {
            (
                raw::stream::stream_get_flags(functions, self.raw)?,
                raw::stream::stream_get_priority(functions, self.raw)?,
            )
        };
        Ok(StreamOptions { blocking: flags.0 & CUstream_flags_enum::CU_STREAM_NON_BLOCKING.0 == 0, priority })
    }

    /// Whether what is enqueued now becomes part of a graph instead of running.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn is_capturing(&self) -> Result<bool> {
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        let status = unsafe { raw::stream::stream_is_capturing(self.driver().functions(), self.raw) };
        match status {
            // A driver that cannot tell cannot capture.
            Err(Error::Unsupported(_)) => Ok(false),
            status => Ok(status? != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
        }
    }

    /// Fails where a call cannot become part of a graph.
    pub(crate) fn ensure_not_capturing(&self) -> Result<()> {
        self.ensure_not_captured()?;
        if self.is_capturing()? { Err(Error::StreamCapturing) } else { Ok(()) }
    }

    /// The same where captures are expected; elsewhere nobody asks, since asking costs a call, and it fails on the stream
    /// of a capture of this crate's only.
    #[inline]
    pub(crate) fn ensure_outside_captures(&self) -> Result<()> {
        self.ensure_not_captured()?;
        if gate::is_open() { Ok(()) } else { self.ensure_not_expected_to_capture() }
    }

    #[cold]
    fn ensure_not_expected_to_capture(&self) -> Result<()> {
        if capture_mode::is_asked_for(self.driver().functions()) { self.ensure_not_capturing() } else { Ok(()) }
    }

    /// Fails on the stream of a capture of this crate's; no driver call.
    pub(crate) const fn ensure_not_captured(&self) -> Result<()> {
        if self.captured { Err(Error::StreamCapturing) } else { Ok(()) }
    }

    /// The event that other streams wait for; made on first use, by whoever comes first.
    #[inline]
    pub(crate) fn fence_event(&self) -> Result<CUevent> {
        let event = self.fence.load(Ordering::Acquire);
        if event.is_null() { self.make_fence_event() } else { Ok(event) }
    }

    /// The event of a fence between this stream and `later`, if that takes no thought: they are two streams of one driver,
    /// the event exists, neither is captured, and nothing at all is out of the ordinary.
    #[inline(always)]
    pub(crate) fn ordinary_fence(&self, later: &Self) -> Option<CUevent> {
        let event = self.fence.load(Ordering::Acquire);
        let ordinary = gate::is_open()
            && self.raw != later.raw
            && self.driver == later.driver
            && !(self.captured | later.captured)
            && !event.is_null();
        ordinary.then_some(event)
    }

    #[cold]
    fn make_fence_event(&self) -> Result<CUevent> {
        let functions = self.driver().functions();
        let made = self.context.with_current(|| {
            // SAFETY: `with_current` makes the stream's own context current.
            unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }
        })?;
        match self.fence.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(made),
            Err(first) => {
                // SAFETY: another thread was first, so nobody has seen this one.
                release::report(unsafe { raw::event::event_destroy(functions, made) });
                Ok(first)
            }
        }
    }

    /// Ends what this value has on the stream. Waits that were enqueued on the event stay in force without it.
    fn end(&mut self) {
        self.end_deferred();
        let event = mem::replace(self.fence.get_mut(), ptr::null_mut());
        if !event.is_null() {
            // SAFETY: the stream owns the event, and forgets it here.
            release::report(unsafe { raw::event::event_destroy(self.driver().functions(), event) });
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
        // SAFETY: the stream is owned and ends here; buffers hold on to theirs, so none is left to be freed on it.
        release::report(unsafe { raw::stream::stream_destroy(self.driver().functions(), self.raw) });
        // SAFETY: never used again.
        unsafe { ManuallyDrop::drop(&mut self.context) };
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("raw", &self.raw)
            .field("context", &*self.context)
            .field("order_lost", &self.order_lost.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// A stream that somebody else keeps alive for `'a`; derefs to [`Stream`].
pub struct StreamRef<'a> {
    stream: ManuallyDrop<Stream>,
    _owner: PhantomData<(&'a Stream, &'a Context)>,
}

impl<'a> StreamRef<'a> {
    /// Borrows the stream `raw` of `context`: one from the CUDA runtime or another library, say.
    ///
    /// # Safety
    /// `raw` must be a stream that was created in `context` (not one of the default streams, whose meaning depends on
    /// the calling thread), and live for all of `'a`. While anybody captures it there must be a
    /// [`RelaxedCaptureMode`](crate::RelaxedCaptureMode).
    #[must_use]
    pub unsafe fn borrow_raw(context: &'a Context, raw: CUstream) -> Self {
        Self { stream: ManuallyDrop::new(Stream::new_in(raw, context.alias())), _owner: PhantomData }
    }
}

impl Deref for StreamRef<'_> {
    type Target = Stream;

    #[inline]
    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for StreamRef<'_> {
    fn drop(&mut self) {
        self.stream.end();
    }
}

impl fmt::Debug for StreamRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// How a [`Buffer`](crate::Buffer) holds its home stream, as `Vec` holds its allocator: by reference, which costs
/// nothing, or by shared ownership, so that the buffer can be stored.
///
/// Sealed: a handle must name the same stream as long as it lives, and keep it alive.
pub trait StreamHandle: sealed::Sealed {
    /// The stream.
    fn stream(&self) -> &Stream;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for Stream {}
impl StreamHandle for Stream {
    #[inline]
    fn stream(&self) -> &Stream {
        self
    }
}

macro_rules! handles {
    ($( [$($generics:tt)*] $handle:ty; )*) => { $(
        impl<$($generics)*> sealed::Sealed for $handle {}
        impl<$($generics)*> StreamHandle for $handle {
            #[inline]
            fn stream(&self) -> &Stream {
                (**self).stream()
            }
        }
    )* };
}

handles! {
    [H: StreamHandle + ?Sized] &H;
    [H: StreamHandle + ?Sized] Arc<H>;
    [H: StreamHandle + ?Sized] Rc<H>;
    [] StreamRef<'_>;
}

const _: () = assert!(size_of::<Stream>() == size_of::<StreamRef<'_>>());
