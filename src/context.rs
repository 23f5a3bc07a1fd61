//! Contexts: a device's primary one, shared with the CUDA runtime and everything built on it.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ops::Deref};

use cuda_sys::CUcontext;

use crate::{Device, Driver, Error, Result, raw, release};

/// One retain of a device's primary context.
///
/// The context exists as long as anything in the process retains it; every [`Stream`](crate::Stream) and
/// [`Event`](crate::Event) does. Nothing here asks the caller to make a context current, and no call leaves another
/// one current than it found.
pub struct Context {
    raw: CUcontext,
    device: Device,
}

// SAFETY: a context handle may be used from every thread, and the driver does its own locking.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Device {
    /// Retains the device's primary context, creating it if nobody has yet (some 100 ms).
    ///
    /// # Errors
    /// Whatever the driver answers: out of memory, or a device that another process holds exclusively.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn primary_context(self) -> Result<Context> {
        let raw = raw::context::device_primary_ctx_retain(self.driver().functions(), self.as_raw())?;
        Ok(Context { raw, device: self })
    }
}

impl Context {
    /// The driver's handle.
    #[must_use]
    #[inline]
    pub const fn as_raw(&self) -> CUcontext {
        self.raw
    }

    /// Gives the retain up to the caller, who owes the driver one `cuDevicePrimaryCtxRelease`.
    #[must_use = "the context stays retained"]
    pub fn into_raw(self) -> CUcontext {
        ManuallyDrop::new(self).raw
    }

    /// Takes over one retain of `device`'s primary context `raw`.
    ///
    /// # Safety
    /// `raw` must be the primary context of `device`, and the caller must own the retain.
    #[must_use]
    pub const unsafe fn from_raw(device: Device, raw: CUcontext) -> Self {
        Self { raw, device }
    }

    /// The context's device.
    #[must_use]
    #[inline]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// The driver it belongs to.
    #[must_use]
    #[inline]
    pub const fn driver(&self) -> Driver {
        self.device.driver()
    }

    /// Retains the context once more.
    ///
    /// # Errors
    /// [`Error::NotPrimary`] for a borrowed context that is not the device's primary one: only that can be shared.
    pub fn try_clone(&self) -> Result<Self> {
        let again = self.device.primary_context()?;
        if again.raw == self.raw { Ok(again) } else { Err(Error::NotPrimary) }
    }

    /// The memory of the context's device in bytes.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuMemGetInfo")]
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        let (free, total) = self.with_current(|| raw::context::mem_get_info(self.driver().functions()))?;
        Ok(MemoryInfo { free, total })
    }

    /// Waits for all work of the context, on every stream.
    ///
    /// # Errors
    /// Whatever the driver answers; see [`Error::is_sticky`].
    #[doc(alias = "cuCtxSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.with_current(|| raw::context::ctx_synchronize(self.driver().functions()))
    }

    /// The least and the greatest priority that a stream can have; the greater is the smaller number.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    pub fn stream_priority_range(&self) -> Result<(i32, i32)> {
        self.with_current(|| raw::context::ctx_get_stream_priority_range(self.driver().functions()))
    }

    /// Runs `work` with this context current on the calling thread, for libraries that expect one; the thread's own
    /// current context is restored afterwards, panic included.
    ///
    /// # Errors
    /// Whatever the driver or `work` answers.
    #[doc(alias = "cuCtxPushCurrent")]
    #[doc(alias = "cuCtxPopCurrent")]
    pub fn with_current<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // SAFETY: `raw` is live: this value's retain keeps it, and only `drop` and `into_raw` end that.
        unsafe { raw::context::with_current(self.driver().functions(), self.raw, work) }
    }

    /// A second value for the same retain, which must not outlive it and must never be dropped.
    pub(crate) const fn alias(&self) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self { raw: self.raw, device: self.device })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this value owns one retain and ends here.
        release::report(unsafe {
            raw::context::device_primary_ctx_release(self.driver().functions(), self.device.as_raw())
        });
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("raw", &self.raw).field("device", &self.device.as_raw()).finish()
    }
}

/// A context that somebody else keeps alive for `'a`; derefs to [`Context`].
pub struct ContextRef<'a> {
    context: ManuallyDrop<Context>,
    _owner: PhantomData<&'a Context>,
}

impl ContextRef<'_> {
    /// Borrows the context `raw` of `device`. It need not be the primary one, but then streams and events cannot be
    /// made in it, since they could not keep it alive.
    ///
    /// # Safety
    /// `raw` must be a context of `device`, and live for all of `'a`.
    #[must_use]
    pub const unsafe fn borrow_raw(device: Device, raw: CUcontext) -> Self {
        Self { context: ManuallyDrop::new(Context { raw, device }), _owner: PhantomData }
    }
}

impl Deref for ContextRef<'_> {
    type Target = Context;

    #[inline]
    fn deref(&self) -> &Context {
        &self.context
    }
}

impl fmt::Debug for ContextRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A device's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free for this process. On some systems more can be allocated than this says (host memory stands in).
    pub free: usize,
    /// All there is.
    pub total: usize,
}

const _: () = assert!(size_of::<Context>() == size_of::<ContextRef<'_>>());
