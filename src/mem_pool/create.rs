//! How pools come to be: made with properties, or found where the driver keeps one.

use super::{
    Access, MemKind, MemPool, MemPoolLocation, MemPoolProperties, MemPoolRef, dropped, properties::admitted_location,
};
use crate::{Device, Result, raw};

/// The first driver that keeps opportunistic reuse from handing out memory in use.
const REUSE_IS_SOUND: u32 = 11050;

impl MemPool {
    /// The default pool for memory of that kind in that place, which belongs to the whole process: it can be used, but
    /// never destroyed. Since CUDA 13.0; [`default_of`](Self::default_of) answers for the device's own pinned memory on
    /// every driver.
    ///
    /// Pinned host memory from it is the host's alone until somebody grants the device access: until then the driver
    /// refuses the device's work with `CUDA_ERROR_INVALID_VALUE`.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) before CUDA 13.0,
    /// [`Error::PoolsUnsupported`](crate::Error::PoolsUnsupported),
    /// [`Error::PoolKindUnsupported`](crate::Error::PoolKindUnsupported),
    /// [`Error::PoolProperties`](crate::Error::PoolProperties) for pinned memory nowhere in particular, or whatever the
    /// driver answers: some have no default pool where they have others.
    #[doc(alias = "cuMemGetDefaultMemPool")]
    #[doc(alias = "cudaMemGetDefaultMemPool")]
    pub fn default_at(device: &Device, location: MemPoolLocation, kind: MemKind) -> Result<MemPoolRef<'static>> {
        device.ensure_memory_pools_supported()?;
        let place = admitted_location(*device, location, kind)?;
        let raw = raw::mem_pool::mem_get_default_mem_pool(device.driver().functions(), place, kind.to_raw())?;
        // SAFETY: the default pool lives as long as the driver.
        Ok(unsafe { MemPoolRef::borrow_raw(*device, raw) })
    }

    /// The current pool for memory of that kind in that place: the default one, unless somebody in the process chose
    /// another. Since CUDA 13.0.
    ///
    /// # Errors
    /// As [`default_at`](Self::default_at).
    ///
    /// # Safety
    /// If the current pool is not the default one, whoever made it must keep it alive for all of `'a`.
    #[doc(alias = "cuMemGetMemPool")]
    #[doc(alias = "cudaMemGetMemPool")]
    pub unsafe fn current_at<'a>(device: &Device, location: MemPoolLocation, kind: MemKind) -> Result<MemPoolRef<'a>> {
        device.ensure_memory_pools_supported()?;
        let place = admitted_location(*device, location, kind)?;
        let raw = raw::mem_pool::mem_get_mem_pool(device.driver().functions(), place, kind.to_raw())?;
        // SAFETY: the caller vouches for its life.
        Ok(unsafe { MemPoolRef::borrow_raw(*device, raw) })
    }

    /// Asks first, makes then; a pool that does not come out as it was wanted ends at once.
    pub(super) fn create(device: Device, properties: &MemPoolProperties) -> Result<Self> {
        device.ensure_memory_pools_supported()?;
        let version = device.driver().version()?;
        let place = properties.admitted(device, version)?;
        dropped::end_some(device.driver());
        let raw = raw::mem_pool::mem_pool_create(device.driver().functions(), &properties.to_raw(place))?;
        // SAFETY: the pool was just made, and nobody else has it.
        let mut pool = unsafe { Self::from_raw(device, raw) };
        let location = MemPoolLocation::from_raw(place, device).unwrap_or(properties.location);
        pool.made = Some(MemPoolProperties { location, ..*properties });
        pool.clear_inherited_access()?;
        if properties.kind == MemKind::Pinned && location.is_host() {
            // SAFETY: nothing is taken away.
            unsafe { pool.set_access(device.as_raw(), Access::ReadWrite)? };
            pool.granted.push(device.as_raw());
        }
        if version < REUSE_IS_SOUND {
            pool.set_reuse_allow_opportunistic(false)?;
        }
        if properties.release_threshold != 0 {
            pool.set_release_threshold(properties.release_threshold)?;
        }
        Ok(pool)
    }
}
