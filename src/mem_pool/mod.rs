//! Memory pools: where buffers come from, and how much memory stays there between them.

mod access;
mod attribute;
mod create;
mod current;
mod default;
mod dropped;
mod limit;
mod location;
mod made;
mod out_of_memory;
mod prime;
mod properties;
mod trim;

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ops::Deref};

use bytemuck::Pod;
use cuda_sys::{CUdevice, CUdeviceptr_v2, CUmemoryPool};

pub use access::Access;
pub use attribute::MemPoolUsage;
pub use current::CurrentPool;
pub use default::DefaultThreshold;
pub use location::{MemHandleTypes, MemKind, MemPoolLocation};
pub use out_of_memory::{OutOfMemory, Rescue};
pub use properties::MemPoolProperties;
pub use trim::Trimmed;

use crate::{
    Buffer, Device, Driver, DriverError, Result, Stream, StreamHandle, buffer, gate, raw, release,
    sync::atomic::{AtomicBool, Ordering},
};

/// A memory pool of our own: in one device's memory, or [elsewhere](MemPoolProperties) and for one device's use.
///
/// It keeps its memory: unless told otherwise the release threshold is `u64::MAX`, so that an allocation finds what an
/// earlier one left, and a synchronisation gives nothing back. (The driver's default is 0, which makes every
/// synchronisation return all free memory to the system, and the next allocation some hundred times slower.)
/// [`trim_to`](Self::trim_to) gives memory back when that is wanted.
///
/// A pool may be dropped while its buffers live, or while frees are still to come: their memory stays, and goes back to the
/// system after the last. The driver's pool is destroyed only when it holds no memory, since drivers such as 580.159 do not
/// survive anything else; see [`destroy_dropped`](Self::destroy_dropped).
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let pool = MemPool::with_properties(&device, &MemPoolProperties::new().max_size(64 << 20))?;
/// let buffer = pool.alloc::<u8, _>(1 << 20, &stream)?;
/// assert_eq!(pool.usage()?.used, 1 << 20);
/// drop(buffer);
/// stream.synchronize()?;
/// // The memory is free, and the pool keeps it until it is told otherwise.
/// assert_eq!(pool.usage()?.used, 0);
/// assert!(pool.usage()?.reserved > 0);
/// assert_eq!(pool.trim_to(0)?.reserved, 0);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "cuMemPoolDestroy")]
pub struct MemPool {
    raw: CUmemoryPool,
    device: Device,
    /// As asked for; `None` if somebody else made the pool.
    made: Option<MemPoolProperties>,
    rescue: AtomicBool,
    soft_limit: limit::SoftLimit,
    /// Devices that were granted access, to be taken back; the pool's own among them where it does not own the memory.
    granted: Vec<CUdevice>,
    /// It was made its device's current pool, and may be yet.
    was_current: bool,
    /// It must not be destroyed any more: the driver would not survive that.
    pub(crate) broken: AtomicBool,
}

// SAFETY: a pool handle may be used from every thread, and the driver does its own locking.
unsafe impl Send for MemPool {}
// SAFETY: as above.
unsafe impl Sync for MemPool {}

impl MemPool {
    /// Makes a pool in `device`'s memory, which keeps its memory.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`](crate::Error::PoolsUnsupported), or whatever the driver answers.
    #[doc(alias = "cuMemPoolCreate")]
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_properties(device, &MemPoolProperties::default())
    }

    /// Makes a pool that is as `properties` say. Nothing is made that could not be used: the device and the driver are
    /// asked first, and a pool that does not come out as it was wanted ends at once.
    ///
    /// On drivers before CUDA 11.5 [opportunistic reuse](Self::reuse_allow_opportunistic) is turned off: there it can
    /// hand out memory that is still in use.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`](crate::Error::PoolsUnsupported);
    /// [`Error::PoolKindUnsupported`](crate::Error::PoolKindUnsupported) with the attribute of the device that says so;
    /// [`Error::PropertyUnsupported`](crate::Error::PropertyUnsupported) if the driver is too old;
    /// [`Error::PoolProperties`](crate::Error::PoolProperties) if the properties do not go together; or whatever the
    /// driver answers.
    #[doc(alias = "cuMemPoolCreate")]
    #[doc(alias = "cudaMemPoolCreate")]
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn with_properties(device: &Device, properties: &MemPoolProperties) -> Result<Self> {
        Self::create(*device, properties)
    }

    /// The device's default pool, which belongs to the whole process: it can be used, but never destroyed. It is left as
    /// it is, also where [pools of our own](Self::with_properties) are made otherwise.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`](crate::Error::PoolsUnsupported), or whatever the driver answers.
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    pub fn default_of(device: &Device) -> Result<MemPoolRef<'static>> {
        device.ensure_memory_pools_supported()?;
        let raw = raw::mem_pool::device_get_default_mem_pool(device.driver().functions(), device.as_raw())?;
        // SAFETY: the default pool lives as long as the driver.
        Ok(unsafe { MemPoolRef::borrow_raw(*device, raw) })
    }

    /// The device's current pool: the default one, unless somebody in the process chose another. Where a driver refuses
    /// the question (some confidential-computing set-ups do), [`default_of`](Self::default_of) may still answer.
    ///
    /// # Errors
    /// As [`default_of`](Self::default_of).
    ///
    /// # Safety
    /// If the current pool is not the default one, whoever made it must keep it alive for all of `'a`.
    #[doc(alias = "cuDeviceGetMemPool")]
    pub unsafe fn current_of<'a>(device: &Device) -> Result<MemPoolRef<'a>> {
        device.ensure_memory_pools_supported()?;
        let raw = raw::mem_pool::device_get_mem_pool(device.driver().functions(), device.as_raw())?;
        // SAFETY: the caller vouches for its life.
        Ok(unsafe { MemPoolRef::borrow_raw(*device, raw) })
    }

    /// The driver's handle.
    #[must_use]
    #[inline]
    pub const fn as_raw(&self) -> CUmemoryPool {
        self.raw
    }

    /// Gives up the pool.
    #[must_use = "the pool stays alive"]
    pub fn into_raw(mut self) -> CUmemoryPool {
        self.end_as_current();
        self.soft_limit.set(None);
        // Whoever owns the pool now answers for what was granted.
        drop(core::mem::take(&mut self.granted));
        ManuallyDrop::new(self).raw
    }

    /// Takes over the pool `raw` of `device`: in its memory, or elsewhere and for its use. What can be asked about how
    /// it was made, the driver must be asked.
    ///
    /// # Safety
    /// `raw` must be a live pool of `device`'s driver, not a default one, and the caller must own it.
    #[must_use]
    pub const unsafe fn from_raw(device: Device, raw: CUmemoryPool) -> Self {
        Self {
            raw,
            device,
            made: None,
            rescue: AtomicBool::new(true),
            soft_limit: limit::SoftLimit::new(),
            granted: Vec::new(),
            was_current: false,
            broken: AtomicBool::new(false),
        }
    }

    /// The pool's device: whose memory it is, or who uses it.
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

    /// Allocates `len` elements in `stream`'s order, with whatever bytes were there before. One driver call; none if
    /// there is nothing to allocate.
    ///
    /// Where other libraries capture graphs in the global mode, see [`RelaxedCaptureMode`](crate::RelaxedCaptureMode); while this
    /// crate captures one, three more calls see to it that the capture stays whole.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) says what was asked for and what there is, after one attempt
    /// at a rescue (see [`set_rescue`](Self::set_rescue)). [`Error::SizeOverflow`](crate::Error::SizeOverflow) and
    /// [`Error::DriverMismatch`](crate::Error::DriverMismatch) before any call, and
    /// [`Error::StreamCapturing`](crate::Error::StreamCapturing) for the stream of a [`Capture`](crate::Capture), and while
    /// there is a [`RelaxedCaptureMode`](crate::RelaxedCaptureMode) for any stream that is being captured; else whatever
    /// the driver answers.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cudaMallocFromPoolAsync")]
    #[inline]
    pub fn alloc<T: Pod, S: StreamHandle>(&self, len: usize, stream: S) -> Result<Buffer<T, S>> {
        buffer::allocate(len, stream, |bytes, home| self.allocate(bytes, home))
    }

    /// Allocates `len` elements in `stream`'s order and sets every byte to zero. Two driver calls.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cuMemsetD8Async")]
    pub fn alloc_zeroed<T: Pod, S: StreamHandle>(&self, len: usize, stream: S) -> Result<Buffer<T, S>> {
        let mut buffer = self.alloc(len, stream)?;
        buffer.fill_zero()?;
        Ok(buffer)
    }

    /// Allocates in `stream`'s order and copies `elements` there; see
    /// [`copy_from_host`](crate::DeviceSliceMut::copy_from_host).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc) and `copy_from_host`.
    pub fn alloc_from_host<T: Pod, S: StreamHandle>(&self, elements: &[T], stream: S) -> Result<Buffer<T, S>> {
        let mut buffer = self.alloc(elements.len(), stream)?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Whether an allocation that does not fit waits for its stream, has the pool give back what it can, and is tried
    /// once more before it fails. On for owned pools, off for borrowed ones, unless set otherwise; never done while the stream is being captured. Turn it off
    /// where the host must not wait: when the stream waits for work that the same thread has yet to enqueue.
    pub fn set_rescue(&self, on: bool) {
        self.rescue.store(on, Ordering::Relaxed);
    }

    #[inline(always)]
    fn allocate(&self, bytes: usize, home: &Stream) -> Result<CUdeviceptr_v2> {
        self.driver().ensure_same(home.driver())?;
        if !gate::is_open() {
            return self.allocate_guarded(bytes, home);
        }
        match self.try_allocate(bytes, home) {
            Ok(address) => Ok(address),
            Err(error) => self.rescued(bytes, home, error),
        }
    }

    fn try_allocate_warily(&self, bytes: usize, home: &Stream) -> Result<CUdeviceptr_v2, DriverError> {
        raw::stream::relaxed_if_asked(home.driver().functions(), || self.try_allocate(bytes, home))
    }

    /// One driver call.
    #[inline(always)]
    fn try_allocate(&self, bytes: usize, home: &Stream) -> Result<CUdeviceptr_v2, DriverError> {
        // SAFETY: both are borrowed, hence live, and of one driver; the callers have asked the gate.
        unsafe { raw::memory::mem_alloc_from_pool_async(home.driver().functions(), bytes, self.raw, home.as_raw()) }
    }
}

impl Drop for MemPool {
    fn drop(&mut self) {
        self.end_as_current();
        self.soft_limit.set(None);
        self.end_access();
        if self.broken.load(Ordering::Relaxed) {
            return release::report(Err(crate::Error::PoolLost));
        }
        // SAFETY: the pool is owned and ends here.
        unsafe { dropped::end(self.device, self.raw) };
    }
}

impl fmt::Debug for MemPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemPool")
            .field("raw", &self.raw)
            .field("device", &self.device.as_raw())
            .field("made", &self.made)
            .field("rescue", &self.rescue.load(Ordering::Relaxed))
            .finish()
    }
}

/// A pool that somebody else keeps alive for `'a`; derefs to [`MemPool`].
pub struct MemPoolRef<'a> {
    pool: ManuallyDrop<MemPool>,
    _owner: PhantomData<&'a MemPool>,
}

impl MemPoolRef<'_> {
    /// Borrows the pool `raw` of `device`: in its memory, or elsewhere and for its use.
    ///
    /// # Safety
    /// `raw` must be a pool of `device`'s driver, and live for all of `'a`.
    #[must_use]
    pub unsafe fn borrow_raw(device: Device, raw: CUmemoryPool) -> Self {
        // SAFETY: the value is never dropped, so it owns nothing.
        let pool = ManuallyDrop::new(unsafe { MemPool::from_raw(device, raw) });
        // Trimming it would take what others count on.
        pool.set_rescue(false);
        Self { pool, _owner: PhantomData }
    }
}

impl Drop for MemPoolRef<'_> {
    fn drop(&mut self) {
        // It is this value's own, unlike all else.
        self.pool.soft_limit.set(None);
    }
}

impl Deref for MemPoolRef<'_> {
    type Target = MemPool;

    #[inline]
    fn deref(&self) -> &MemPool {
        &self.pool
    }
}

impl fmt::Debug for MemPoolRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

const _: () = assert!(size_of::<MemPool>() == size_of::<MemPoolRef<'_>>());
