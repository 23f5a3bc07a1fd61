//! The default streams: where work goes for which no stream was named, above all that of libraries.
//!
//! Their handles mean nothing by themselves. The driver looks at the calling thread's current context, and for the
//! per-thread one at the thread as well. So they are no [`Stream`]s, which any thread may use whatever is current: a
//! [`DefaultStream`] makes its own context current for each call, and the per-thread one stays on its thread.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ptr};

use cuda_sys::CUstream;

use crate::{Context, Driver, Error, Event, Result, Stream, order, raw};

/// A context's default stream, legacy or per-thread: [`LegacyStream`] or [`PerThreadStream`].
///
/// Nothing of this crate is enqueued there. It is for order with what others enqueue, such as a library that was given
/// no stream or PyTorch: [`Buffer::on_default`](crate::Buffer::on_default) lends them a buffer, and events and waits
/// order work without one. Each call makes the stream's context current while it lasts.
///
/// The legacy default stream (the "null" stream) waits for every other stream of its context that was not made
/// non-blocking, and they for it: for the per-thread ones, and for those with
/// [`StreamOptions::blocking`](crate::StreamOptions::blocking). While a blocking stream is captured, any call on the
/// legacy stream fails and spoils the capture.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let default = LegacyStream::new(&context)?;
/// let stream = Stream::new(&context)?;
/// let mut buffer = MemPool::new(&device)?.alloc_zeroed::<f32, _>(1024, &stream)?;
/// let loan = buffer.on_default(&default)?; // the default stream waits for `stream`
/// context.with_current(|| {
///     // Here a library may use `loan.as_raw()` on its default stream.
/// #   let _ = loan.as_raw();
///     Ok(())
/// })?;
/// drop(loan); // `stream` waits for the default stream
/// # Ok::<(), Error>(())
/// ```
pub struct DefaultStream<K: DefaultStreamKind> {
    /// Not to be had from outside: its handle is right only while its context is current, and for the per-thread one
    /// only on this thread.
    stream: ManuallyDrop<Stream>,
    _kind: PhantomData<K>,
}

/// The legacy default stream of a context, one for all threads. The CUDA runtime's default, and PyTorch's.
pub type LegacyStream = DefaultStream<Legacy>;

/// The default stream of a context and of the thread that this is on. Its handle means another stream on every thread,
/// so this cannot be sent to one.
pub type PerThreadStream = DefaultStream<PerThread>;

/// Which default stream.
///
/// Sealed: there are two.
pub trait DefaultStreamKind: sealed::Sealed {}

/// See [`LegacyStream`].
#[derive(Debug)]
pub struct Legacy(());

/// See [`PerThreadStream`].
#[derive(Debug)]
pub struct PerThread(PhantomData<*const ()>);

impl DefaultStreamKind for Legacy {}
impl DefaultStreamKind for PerThread {}

mod sealed {
    pub trait Sealed {
        /// The handle's value in every process.
        const HANDLE: usize;
        const NAME: &'static str;
    }
    /// `CU_STREAM_LEGACY`
    impl Sealed for super::Legacy {
        const HANDLE: usize = 1;
        const NAME: &'static str = "LegacyStream";
    }
    /// `CU_STREAM_PER_THREAD`
    impl Sealed for super::PerThread {
        const HANDLE: usize = 2;
        const NAME: &'static str = "PerThreadStream";
    }
}

impl<K: DefaultStreamKind> DefaultStream<K> {
    /// The default stream of `context`; for [`PerThreadStream`], the calling thread's. It shares the context. No driver
    /// call, unless the context is borrowed.
    ///
    /// # Errors
    /// [`Error::NotPrimary`] if `context` is not a primary one.
    #[doc(alias = "CU_STREAM_LEGACY")]
    #[doc(alias = "CU_STREAM_PER_THREAD")]
    pub fn new(context: &Context) -> Result<Self> {
        let raw = ptr::without_provenance_mut(K::HANDLE);
        // SAFETY: a default stream lives as long as its context, which this one shares, and is never destroyed: `drop`
        // takes the value apart. That the handle needs a current context, and maybe this thread, is seen to by
        // `inside`, the only way to the stream, and by `K`.
        let stream = unsafe { Stream::from_raw_parts(raw, context.try_clone()?) };
        Ok(Self { stream: ManuallyDrop::new(stream), _kind: PhantomData })
    }

    /// The driver's handle, which means this stream while [`context`](Self::context) is current, and for
    /// [`PerThreadStream`] on this thread.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.stream.as_raw()
    }

    /// The stream's context.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.stream.context()
    }

    /// The driver it belongs to.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.stream.driver()
    }

    /// Waits on the host until all work enqueued so far is done; for [`LegacyStream`], on blocking streams too.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    #[doc(alias = "cuStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.inside(Stream::synchronize)
    }

    /// Whether all work enqueued so far is done.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    #[doc(alias = "cuStreamQuery")]
    pub fn query(&self) -> Result<bool> {
        self.inside(Stream::query)
    }

    /// Marks the work enqueued here so far with `event`, as [`Event::record`] does on other streams.
    ///
    /// # Errors
    /// [`Error::DriverMismatch`], and [`Error::ContextMismatch`] if the event is of another context; else whatever the
    /// driver answers.
    #[doc(alias = "cuEventRecord")]
    pub fn record(&self, event: &Event) -> Result<()> {
        self.inside(|stream| event.record(stream))
    }

    /// Makes work enqueued here from now on wait until `event`'s last recording is done. The host does not wait.
    ///
    /// # Errors
    /// As [`Stream::wait`].
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.inside(|stream| stream.wait(event))
    }

    /// Makes work enqueued here from now on wait until all work enqueued on `other` so far is done. The host does not
    /// wait.
    ///
    /// # Errors
    /// As [`Stream::wait_for`].
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        self.inside(|stream| order::fence(other, stream))
    }

    /// Runs `work`, where the handle means this stream. `work` must not keep it, nor pair it with another default
    /// stream.
    pub(crate) fn inside<T>(&self, work: impl FnOnce(&Stream) -> Result<T>) -> Result<T> {
        self.context().with_current(|| work(&self.stream))
    }
}

impl Stream {
    /// Makes work enqueued from now on wait until all work enqueued on the default stream `other` so far is done. The
    /// host does not wait.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::DriverMismatch`].
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait_for_default<K: DefaultStreamKind>(&self, other: &DefaultStream<K>) -> Result<()> {
        other.inside(|stream| order::fence(stream, self))
    }

    /// Fails unless the driver says, too, that this stream is of [`context`](Self::context): a check for streams that
    /// were taken over or borrowed with [`from_raw_parts`](Self::from_raw_parts) or
    /// [`StreamRef::borrow_raw`](crate::StreamRef::borrow_raw). The handle must be a live one all the same.
    ///
    /// # Errors
    /// [`Error::ContextMismatch`] if it is of another context; else whatever the driver answers.
    #[doc(alias = "cuStreamGetCtx")]
    pub fn ensure_of_context(&self) -> Result<()> {
        // SAFETY: the stream is borrowed, hence live.
        let context = unsafe { raw::stream::stream_get_ctx(self.driver().functions(), self.as_raw()) }?;
        if context == self.context().as_raw() { Ok(()) } else { Err(Error::ContextMismatch) }
    }
}

impl<K: DefaultStreamKind> Drop for DefaultStream<K> {
    fn drop(&mut self) {
        // SAFETY: never used again. Taken apart it gives up its event and its context, and nothing else.
        drop(unsafe { ManuallyDrop::take(&mut self.stream) }.into_raw_parts());
    }
}

impl<K: DefaultStreamKind> fmt::Debug for DefaultStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(K::NAME).field("context", self.context()).finish_non_exhaustive()
    }
}
