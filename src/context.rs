//! Contexts: a device's primary one, shared with the CUDA runtime and everything built on it.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ops::Deref, ptr};
use std::sync::Arc;

use cuda_sys::CUcontext;

use crate::{
    Device, Driver, Error, Result, foreign::retired::Retired, gate, graph::ParkedOwners, host::Parked, raw, release,
    staging::Staging,
};

/// A retain of a device's primary context, shared by whatever was made in it.
///
/// The context exists as long as anything in the process retains it; every [`Stream`](crate::Stream) and
/// [`Event`](crate::Event) holds on to the one it was made with. Dropping the last of them waits for copies between the
/// host and the device that are still under way, since their memory goes with it. Nothing here asks the caller to make a context
/// current, and no call leaves another one current than it found.
#[doc(alias = "cuDevicePrimaryCtxRelease")]
pub struct Context {
    shared: Arc<Shared>,
}

struct Shared {
    raw: CUcontext,
    device: Device,
    /// Freed before the context can go.
    staging: Staging,
    /// Likewise.
    parked: Parked,
    /// Likewise.
    managed: Parked,
    /// Dropped before the context can go.
    retired: Retired,
    /// Likewise.
    owners: ParkedOwners,
    /// `None` if somebody else keeps the context alive.
    retain: Option<Retain>,
}

/// One retain, owed back to the driver.
struct Retain(Device);

// SAFETY: a context handle may be used from every thread, and the driver does its own locking.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Device {
    /// Retains the device's primary context, creating it if nobody has yet (some 100 ms).
    ///
    /// # Errors
    /// Whatever the driver answers: out of memory, or a device that another process holds exclusively.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn primary_context(self) -> Result<Context> {
        gate::arm()?;
        let raw = raw::context::device_primary_ctx_retain(self.driver().functions(), self.as_raw())?;
        // SAFETY: the retain was just made.
        Ok(unsafe { Context::from_raw(self, raw) })
    }
}

impl Device {
    /// Whether anybody in the process retains the device's primary context. Nothing is created.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuDevicePrimaryCtxGetState")]
    pub fn is_primary_context_active(self) -> Result<bool> {
        raw::context::device_primary_ctx_is_active(self.driver().functions(), self.as_raw())
    }
}

impl Context {
    /// The driver's handle.
    #[must_use]
    #[inline]
    pub fn as_raw(&self) -> CUcontext {
        self.shared.raw
    }

    /// Gives the caller a retain in place of this value; the driver is owed one `cuDevicePrimaryCtxRelease` for it.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::NotPrimary`] for a borrowed context that is not the device's primary one.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn into_raw(self) -> Result<CUcontext> {
        let again = raw::context::device_primary_ctx_retain(self.driver().functions(), self.device().as_raw())?;
        if again == self.as_raw() {
            return Ok(again);
        }
        drop(Retain(self.device()));
        Err(Error::NotPrimary)
    }

    /// Takes over one retain of `device`'s primary context `raw`.
    ///
    /// # Safety
    /// `raw` must be the primary context of `device`, and the caller must own the retain.
    #[must_use]
    pub unsafe fn from_raw(device: Device, raw: CUcontext) -> Self {
        Self::with_retain(device, raw, Some(Retain(device)))
    }

    fn with_retain(device: Device, raw: CUcontext, retain: Option<Retain>) -> Self {
        // Whoever made it has initialised the driver. Nobody can be told here if forks cannot be noticed.
        let _ = gate::arm();
        Self {
            shared: Arc::new(Shared {
                raw,
                device,
                staging: Staging::new(),
                parked: Parked::pinned(),
                managed: Parked::managed(),
                retired: Retired::new(),
                owners: ParkedOwners::new(),
                retain,
            }),
        }
    }

    /// The context's device.
    #[must_use]
    #[inline]
    pub fn device(&self) -> Device {
        self.shared.device
    }

    /// The driver it belongs to.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> Driver {
        self.shared.device.driver()
    }

    /// A second owner of the context; no driver call, unless this one is borrowed.
    ///
    /// # Errors
    /// [`Error::NotPrimary`] for a borrowed context that is not the device's primary one: only that can be shared.
    pub fn try_clone(&self) -> Result<Self> {
        if self.shared.retain.is_some() {
            return Ok(Self { shared: Arc::clone(&self.shared) });
        }
        let again = self.device().primary_context()?;
        if again.as_raw() == self.as_raw() { Ok(again) } else { Err(Error::NotPrimary) }
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
        // SAFETY: the context is live: the retain, or who lent it, keeps it for as long as this value exists.
        unsafe { raw::context::with_current(self.driver().functions(), self.as_raw(), work) }
    }

    /// The pinned memory through which copies of this context pass.
    pub(crate) fn staging(&self) -> &Staging {
        &self.shared.staging
    }

    /// Pinned memory that was dropped before the device was done with it.
    pub(crate) fn parked(&self) -> &Parked {
        &self.shared.parked
    }

    /// Managed memory that was dropped before the device was done with it.
    pub(crate) fn parked_managed(&self) -> &Parked {
        &self.shared.managed
    }

    /// Owners of foreign memory that was dropped before the device was done with it.
    pub(crate) fn retired(&self) -> &Retired {
        &self.shared.retired
    }

    /// What graphs have kept, and launches may still use.
    pub(crate) fn parked_owners(&self) -> &ParkedOwners {
        &self.shared.owners
    }

    /// A second value for the same share, which must not outlive it and must never be dropped.
    pub(crate) const fn alias(&self) -> ManuallyDrop<Self> {
        // SAFETY: the copy is never dropped, so it takes no part in the counting.
        ManuallyDrop::new(Self { shared: unsafe { ptr::read(&raw const self.shared) } })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let functions = self.device.driver().functions();
        // SAFETY: the context is live: the retain is given up after this.
        unsafe {
            self.retired.end(functions, self.raw);
            self.staging.free(functions, self.raw);
            self.parked.free(functions, self.raw);
            self.managed.free(functions, self.raw);
            self.owners.release_all(functions);
        }
    }
}

impl Drop for Retain {
    fn drop(&mut self) {
        // SAFETY: this value owns one retain and ends here.
        release::report(unsafe {
            raw::context::device_primary_ctx_release(self.0.driver().functions(), self.0.as_raw())
        });
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("raw", &self.as_raw()).field("device", &self.device().as_raw()).finish()
    }
}

/// A context that somebody else keeps alive for `'a`; derefs to [`Context`].
pub struct ContextRef<'a> {
    /// Dropped by hand: what that does must be done while the owner lives.
    context: ManuallyDrop<Context>,
    _owner: PhantomData<&'a Context>,
}

impl<'a> ContextRef<'a> {
    /// Borrows the calling thread's current context, which some other library has made so; `None` if there is none.
    ///
    /// # Errors
    /// Whatever the driver answers.
    ///
    /// # Safety
    /// The context must live for all of `'a`.
    #[doc(alias = "cuCtxGetCurrent")]
    #[doc(alias = "cuCtxGetDevice")]
    pub unsafe fn current(driver: Driver) -> Result<Option<Self>> {
        driver.init()?;
        let raw = raw::context::ctx_get_current(driver.functions())?;
        if raw.is_null() {
            return Ok(None);
        }
        let device = Device::from_raw(driver, raw::context::ctx_get_device(driver.functions())?);
        // SAFETY: it is current, hence a context of that device; the caller vouches for its life.
        Ok(Some(unsafe { Self::borrow_raw(device, raw) }))
    }

    /// Borrows the context `raw` of `device`. It need not be the primary one, but then streams and events cannot be
    /// made in it, since they could not keep it alive.
    ///
    /// # Safety
    /// `raw` must be a context of `device`, and live for all of `'a`.
    #[must_use]
    pub unsafe fn borrow_raw(device: Device, raw: CUcontext) -> Self {
        Self { context: ManuallyDrop::new(Context::with_retain(device, raw, None)), _owner: PhantomData }
    }
}

impl Drop for ContextRef<'_> {
    fn drop(&mut self) {
        // SAFETY: never used again.
        unsafe { ManuallyDrop::drop(&mut self.context) };
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
