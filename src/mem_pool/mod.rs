//! Memory pools: where buffers come from, and how much memory stays there between them.

mod attribute;
mod out_of_memory;

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ops::Deref};

use bytemuck::Pod;
use cuda_sys::{
    CUdeviceptr_v2, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType,
    CUmemPoolProps_v1, CUmemoryPool,
};

pub use attribute::{MemPoolUsage, Trimmed};
pub use out_of_memory::{OutOfMemory, Rescue};

use crate::{
    Buffer, Device, Driver, DriverError, Result, Stream, StreamHandle, buffer, gate, raw, release,
    sync::atomic::{AtomicBool, Ordering},
};

/// A memory pool of our own, on one device.
///
/// It keeps its memory: unless told otherwise the release threshold is `u64::MAX`, so that an allocation finds what an
/// earlier one left, and a synchronisation gives nothing back. (The driver's default is 0, which makes every
/// synchronisation return all free memory to the system, and the next allocation some hundred times slower.)
/// [`trim_to`](Self::trim_to) gives memory back when that is wanted.
///
/// A pool may be dropped while its buffers live: their memory stays, and the driver gives it back after the last.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let pool = MemPool::with_properties(&device, &MemPoolProperties { max_size: 64 << 20, ..Default::default() })?;
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
    /// `None` if somebody else made the pool.
    limit: Option<usize>,
    rescue: AtomicBool,
}

// SAFETY: a pool handle may be used from every thread, and the driver does its own locking.
unsafe impl Send for MemPool {}
// SAFETY: as above.
unsafe impl Sync for MemPool {}

/// How a pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemPoolProperties {
    /// How many bytes the pool may keep when a stream, event or context is synchronised.
    pub release_threshold: u64,
    /// How many bytes the pool may hold at all; 0 is no limit. The driver rounds it up, and reserves as many
    /// addresses: without a limit, twice the device's memory for each pool.
    pub max_size: usize,
}

impl Default for MemPoolProperties {
    /// Keeps all memory, without a limit.
    fn default() -> Self {
        Self { release_threshold: u64::MAX, max_size: 0 }
    }
}

impl MemPool {
    /// Makes a pool in `device`'s memory, which keeps its memory.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`](crate::Error::PoolsUnsupported), or whatever the driver answers.
    #[doc(alias = "cuMemPoolCreate")]
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_properties(device, &MemPoolProperties::default())
    }

    /// Makes a pool in `device`'s memory.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(alias = "cuMemPoolCreate")]
    #[doc(alias = "cudaMemPoolCreate")]
    pub fn with_properties(device: &Device, properties: &MemPoolProperties) -> Result<Self> {
        device.ensure_memory_pools_supported()?;
        let raw_properties = CUmemPoolProps_v1 {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device.as_raw() },
            win32SecurityAttributes: core::ptr::null_mut(),
            maxSize: properties.max_size,
            usage: 0,
            reserved: [0; 54],
        };
        let raw = raw::mem_pool::mem_pool_create(device.driver().functions(), &raw_properties)?;
        // SAFETY: the pool was just made, and nobody else has it.
        let mut pool = unsafe { Self::from_raw(*device, raw) };
        pool.limit = Some(properties.max_size);
        if properties.release_threshold != 0 {
            pool.set_release_threshold(properties.release_threshold)?;
        }
        Ok(pool)
    }

    /// The device's default pool, which belongs to the whole process: it can be used, but never destroyed.
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
    pub fn into_raw(self) -> CUmemoryPool {
        ManuallyDrop::new(self).raw
    }

    /// Takes over the pool `raw` of `device`.
    ///
    /// # Safety
    /// `raw` must be a live pool on `device`, not the default one, and the caller must own it.
    #[must_use]
    pub const unsafe fn from_raw(device: Device, raw: CUmemoryPool) -> Self {
        Self { raw, device, limit: None, rescue: AtomicBool::new(true) }
    }

    /// The pool's device.
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
    /// Where other libraries capture graphs in the global mode, see [`BesideCaptures`](crate::BesideCaptures); while this
    /// crate captures one, two more calls see to it that the capture stays whole.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) says what was asked for and what there is, after one attempt
    /// at a rescue (see [`set_rescue`](Self::set_rescue)). [`Error::SizeOverflow`](crate::Error::SizeOverflow) and
    /// [`Error::DriverMismatch`](crate::Error::DriverMismatch) before any call, and
    /// [`Error::StreamCapturing`](crate::Error::StreamCapturing) for the stream of a [`Capture`](crate::Capture); else
    /// whatever the driver answers.
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
        if !gate::is_open() {
            return self.allocate_with_care(bytes, home);
        }
        self.driver().ensure_same(home.driver())?;
        match self.try_allocate(bytes, home) {
            Ok(address) => Ok(address),
            Err(error) => self.rescued(bytes, home, error),
        }
    }

    /// Where something in the process is out of the ordinary.
    #[cold]
    fn allocate_with_care(&self, bytes: usize, home: &Stream) -> Result<CUdeviceptr_v2> {
        // What could not be freed there is not allocated there.
        home.check_ordered()?;
        // It would be memory of the graph's.
        home.ensure_not_captured()?;
        self.driver().ensure_same(home.driver())?;
        let allocate = || self.try_allocate(bytes, home);
        let functions = home.driver().functions();
        let allocated =
            if gate::is_capturing(functions) { raw::stream::relaxed(functions, allocate) } else { allocate() };
        allocated.or_else(|error| self.rescued(bytes, home, error))
    }

    /// One driver call.
    #[inline(always)]
    fn try_allocate(&self, bytes: usize, home: &Stream) -> Result<CUdeviceptr_v2, DriverError> {
        // SAFETY: both are borrowed, hence live, and of one driver; `allocate` has asked the gate, by way of the stream.
        unsafe { raw::memory::mem_alloc_from_pool_async(home.driver().functions(), bytes, self.raw, home.as_raw()) }
    }
}

impl Drop for MemPool {
    fn drop(&mut self) {
        // SAFETY: the pool is owned and ends here; the driver keeps it until its last allocation is freed.
        release::report(unsafe { raw::mem_pool::mem_pool_destroy(self.driver().functions(), self.raw) });
    }
}

impl fmt::Debug for MemPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemPool")
            .field("raw", &self.raw)
            .field("device", &self.device.as_raw())
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
    /// Borrows the pool `raw` of `device`.
    ///
    /// # Safety
    /// `raw` must be a pool on `device`, and live for all of `'a`.
    #[must_use]
    pub unsafe fn borrow_raw(device: Device, raw: CUmemoryPool) -> Self {
        // SAFETY: the value is never dropped, so it owns nothing.
        let pool = ManuallyDrop::new(unsafe { MemPool::from_raw(device, raw) });
        // Trimming it would take what others count on.
        pool.set_rescue(false);
        Self { pool, _owner: PhantomData }
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
