//! cudarc: `CudaSlice<u8>`, which comes from the device's default pool; and that pool's threshold.

use std::{ptr, sync::Arc};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, sys};

use crate::peer::{Allocate, Outcome};

pub(crate) struct Cudarc {
    streams: Vec<Arc<CudaStream>>,
    context: Arc<CudaContext>,
    pool: DefaultPool,
}

impl Cudarc {
    pub(crate) fn open(streams: u32) -> Outcome<Self> {
        let context = CudaContext::new(0)?;
        let streams = (0..streams).map(|_| context.new_stream()).collect::<Result<_, _>>()?;
        Ok(Self { streams, context, pool: DefaultPool::of_device()? })
    }
}

impl Allocate for Cudarc {
    type Block = CudaSlice<u8>;

    fn attach(&self) -> Outcome<()> {
        Ok(self.context.bind_to_thread()?)
    }

    #[inline]
    fn allocate(&self, stream: u32, bytes: u64) -> Outcome<Self::Block> {
        // SAFETY: nobody reads the memory.
        Ok(unsafe { self.streams[stream as usize].alloc(bytes as usize) }?)
    }

    #[inline]
    fn synchronize(&self, stream: u32) -> Outcome<()> {
        Ok(self.streams[stream as usize].synchronize()?)
    }

    fn streams(&self) -> u32 {
        self.streams.len() as u32
    }

    fn trim(&self) -> Outcome<()> {
        self.pool.trim()
    }

    fn reserved(&self) -> Outcome<u64> {
        self.pool.reserved()
    }
}

/// The default pool of device 0, by cudarc's bindings.
pub(crate) struct DefaultPool(sys::CUmemoryPool);

// SAFETY: a handle of the driver's, whose functions may be called from any thread.
unsafe impl Send for DefaultPool {}
// SAFETY: as above.
unsafe impl Sync for DefaultPool {}

impl DefaultPool {
    pub(crate) fn of_device() -> Outcome<Self> {
        CudaContext::new(0)?;
        let mut pool = ptr::null_mut();
        // SAFETY: `pool` outlives the call, and the driver is initialised.
        unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, 0) }.result()?;
        Ok(Self(pool))
    }

    pub(crate) fn threshold(&self) -> Outcome<u64> {
        self.get(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    }

    pub(crate) fn set_threshold(&self, mut bytes: u64) -> Outcome<()> {
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the default pool lives as long as the driver, and the attribute is of 64 bits.
        unsafe { sys::cuMemPoolSetAttribute(self.0, attribute, (&raw mut bytes).cast()) }.result()?;
        Ok(())
    }

    pub(crate) fn reserved(&self) -> Outcome<u64> {
        self.get(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }

    pub(crate) fn trim(&self) -> Outcome<()> {
        // SAFETY: the default pool lives as long as the driver.
        unsafe { sys::cuMemPoolTrimTo(self.0, 0) }.result()?;
        Ok(())
    }

    fn get(&self, attribute: sys::CUmemPool_attribute) -> Outcome<u64> {
        let mut value = 0_u64;
        // SAFETY: the default pool lives as long as the driver, and the attributes that are asked for are of 64 bits.
        unsafe { sys::cuMemPoolGetAttribute(self.0, attribute, (&raw mut value).cast()) }.result()?;
        Ok(value)
    }
}
