//! Events: marks in a stream's work that streams and the host can wait for.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ops::Deref};

use cuda_sys::{CUevent, CUevent_flags_enum, CUresult};

use crate::{Context, Driver, Error, Result, Stream, raw, release};

/// A mark in a stream's work, without a clock: the cheapest kind. It keeps its context alive.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let (first, second) = (Stream::new(&context)?, Stream::new(&context)?);
/// let event = Event::new(&context)?;
/// event.record(&first)?;
/// second.wait(&event)?; // no host thread waits
/// event.synchronize()?; // this one does
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "cuEventDestroy")]
pub struct Event {
    raw: CUevent,
    context: ManuallyDrop<Context>,
}

// SAFETY: event handles may be used from every thread, and the driver does its own locking.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Makes an event.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::NotPrimary`] if `context` is not a primary one.
    #[doc(alias = "cuEventCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        Self::with_flags(context, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING)
    }

    fn with_flags(context: &Context, flags: CUevent_flags_enum) -> Result<Self> {
        let context = context.try_clone()?;
        let functions = context.driver().functions();
        // SAFETY: `with_current` makes the event's context the current one.
        let raw = context.with_current(|| unsafe { raw::event::event_create(functions, flags) })?;
        // SAFETY: the event was just made in this context, and nobody else has it.
        Ok(unsafe { Self::from_raw_parts(raw, context) })
    }

    /// The driver's handle.
    #[must_use]
    #[inline]
    pub const fn as_raw(&self) -> CUevent {
        self.raw
    }

    /// Gives up the event and the retain of its context.
    #[must_use = "the event stays alive"]
    pub fn into_raw_parts(self) -> (CUevent, Context) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again.
        (this.raw, unsafe { ManuallyDrop::take(&mut this.context) })
    }

    /// Takes over the event `raw` of `context`.
    ///
    /// # Safety
    /// `raw` must be a live event that was created in `context`, and the caller must own it.
    #[must_use]
    pub const unsafe fn from_raw_parts(raw: CUevent, context: Context) -> Self {
        Self { raw, context: ManuallyDrop::new(context) }
    }

    /// The event's context.
    #[must_use]
    #[inline]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The driver it belongs to.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> Driver {
        self.context.driver()
    }

    /// Marks the work enqueued on `stream` so far, in place of what was marked before. Streams that already wait go
    /// on waiting for what was marked when they began to.
    ///
    /// # Errors
    /// [`Error::ContextMismatch`] before any call if the stream is of another context; [`Error::StreamCapturing`] for the
    /// stream of a [`Capture`](crate::Capture); else whatever the driver answers.
    #[doc(alias = "cuEventRecord")]
    #[inline]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.ensure_not_captured()?;
        self.driver().ensure_same(stream.driver())?;
        if self.context.as_raw() != stream.context().as_raw() {
            return Err(Error::ContextMismatch);
        }
        // SAFETY: both are borrowed, hence live.
        unsafe { raw::event::event_record(self.driver().functions(), self.raw, stream.as_raw()) }
    }

    /// Whether the marked work is done; true if nothing was ever marked.
    ///
    /// # Errors
    /// Whatever the driver answers. A fault of earlier work surfaces here; see [`Error::is_sticky`].
    #[doc(alias = "cuEventQuery")]
    pub fn query(&self) -> Result<bool> {
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        unsafe { raw::event::event_query(self.driver().functions(), self.raw) }
    }

    /// Waits on the host until the marked work is done; returns at once if nothing was ever marked.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    #[doc(alias = "cuEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: `raw` is live: only `drop` and `into_raw_parts` end it.
        unsafe { raw::event::event_synchronize(self.driver().functions(), self.raw) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is owned and ends here; waits enqueued on it stay in force without it.
        release::report(unsafe { raw::event::event_destroy(self.driver().functions(), self.raw) });
        // SAFETY: never used again.
        unsafe { ManuallyDrop::drop(&mut self.context) };
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("raw", &self.raw).field("context", &*self.context).finish()
    }
}

/// An event that somebody else keeps alive for `'a`; derefs to [`Event`].
pub struct EventRef<'a> {
    event: ManuallyDrop<Event>,
    _owner: PhantomData<(&'a Event, &'a Context)>,
}

impl<'a> EventRef<'a> {
    /// Borrows the event `raw` of `context`.
    ///
    /// # Safety
    /// `raw` must be an event that was created in `context`, and live for all of `'a`.
    #[must_use]
    pub const unsafe fn borrow_raw(context: &'a Context, raw: CUevent) -> Self {
        Self { event: ManuallyDrop::new(Event { raw, context: context.alias() }), _owner: PhantomData }
    }
}

impl Deref for EventRef<'_> {
    type Target = Event;

    #[inline]
    fn deref(&self) -> &Event {
        &self.event
    }
}

impl fmt::Debug for EventRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An event that also notes when its mark was passed; derefs to [`Event`].
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let (start, end) = (TimedEvent::new(&context)?, TimedEvent::new(&context)?);
/// assert_eq!(end.elapsed_ms_since(&start), Err(Error::NotRecorded));
/// start.record(&stream)?;
/// end.record(&stream)?;
/// end.synchronize()?;
/// assert!(end.elapsed_ms_since(&start)? >= 0.0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct TimedEvent(Event);

impl TimedEvent {
    /// Makes a timed event.
    ///
    /// # Errors
    /// As [`Event::new`].
    #[doc(alias = "cuEventCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        Event::with_flags(context, CUevent_flags_enum::CU_EVENT_DEFAULT).map(Self)
    }

    /// Gives up the event and the retain of its context.
    #[must_use = "the event stays alive"]
    pub fn into_raw_parts(self) -> (CUevent, Context) {
        self.0.into_raw_parts()
    }

    /// Takes over the timed event `raw` of `context`.
    ///
    /// # Safety
    /// As [`Event::from_raw_parts`]. (If the event was made without a clock, questions for its time answer
    /// [`Error::NotRecorded`].)
    #[must_use]
    pub const unsafe fn from_raw_parts(raw: CUevent, context: Context) -> Self {
        // SAFETY: as the caller says.
        Self(unsafe { Event::from_raw_parts(raw, context) })
    }

    /// Milliseconds from `start`'s mark to this one's, to about half a microsecond; negative if `start` came later.
    ///
    /// # Errors
    /// [`Error::NotReady`] if either mark has not been passed yet, [`Error::NotRecorded`] if either event never was
    /// recorded, [`Error::ContextMismatch`] if they are of two devices, whose clocks are not one; else whatever the
    /// driver answers.
    #[doc(alias = "cuEventElapsedTime")]
    pub fn elapsed_ms_since(&self, start: &Self) -> Result<f32> {
        self.driver().ensure_same(start.driver())?;
        if self.context().device() != start.context().device() {
            return Err(Error::ContextMismatch);
        }
        // SAFETY: both are borrowed, hence live.
        let elapsed =
            unsafe { raw::event::event_elapsed_time(self.driver().functions(), start.as_raw(), self.as_raw()) };
        elapsed.map_err(|error| match error.code() {
            Some(CUresult::CUDA_ERROR_NOT_READY) => Error::NotReady,
            // Both handles are live, timed and of one device, so the driver can only mean the record.
            Some(CUresult::CUDA_ERROR_INVALID_HANDLE) => Error::NotRecorded,
            _ => error,
        })
    }
}

impl Deref for TimedEvent {
    type Target = Event;

    #[inline]
    fn deref(&self) -> &Event {
        &self.0
    }
}

const _: () = assert!(size_of::<Event>() == size_of::<EventRef<'_>>() && size_of::<Event>() == size_of::<TimedEvent>());
