//! Memory pools.

use cuda_sys::{
    CUdevice, CUmemAccess_flags, CUmemAccessDesc_v1, CUmemAllocationType, CUmemLocation, CUmemPool_attribute,
    CUmemPoolProps_v1, CUmemoryPool, Functions,
};

use super::{call, out, stream::relaxed};
use crate::Result;

pub(crate) fn mem_pool_create(functions: &Functions, properties: &CUmemPoolProps_v1) -> Result<CUmemoryPool> {
    // SAFETY: the driver writes the handle when it answers success.
    relaxed(functions, || unsafe { out(|pool| call!(functions, cuMemPoolCreate(pool, properties))) })
}

/// # Safety
/// `pool` must be live, not a device's default pool, and not be used afterwards.
pub(crate) unsafe fn mem_pool_destroy(functions: &Functions, pool: CUmemoryPool) -> Result<()> {
    call!(functions, cuMemPoolDestroy(pool))
}

/// # Safety
/// `pool` must be live, and `V` the type that the driver's documentation gives for `attribute`.
pub(crate) unsafe fn mem_pool_get_attribute<V>(
    functions: &Functions,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
) -> Result<V> {
    // SAFETY: the driver writes a value of the attribute's type when it answers success.
    unsafe { out(|value: *mut V| call!(functions, cuMemPoolGetAttribute(pool, attribute, value.cast()))) }
}

/// # Safety
/// `pool` must be live, and `V` the type that the driver's documentation gives for `attribute`.
pub(crate) unsafe fn mem_pool_set_attribute<V>(
    functions: &Functions,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    mut value: V,
) -> Result<()> {
    call!(functions, cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()))
}

/// # Safety
/// `pool` must be live.
pub(crate) unsafe fn mem_pool_trim_to(functions: &Functions, pool: CUmemoryPool, keep: usize) -> Result<()> {
    call!(functions, cuMemPoolTrimTo(pool, keep))
}

pub(crate) fn device_get_default_mem_pool(functions: &Functions, device: CUdevice) -> Result<CUmemoryPool> {
    // SAFETY: the driver writes the handle when it answers success.
    unsafe { out(|pool| call!(functions, cuDeviceGetDefaultMemPool?(pool, device))) }
}

pub(crate) fn device_get_mem_pool(functions: &Functions, device: CUdevice) -> Result<CUmemoryPool> {
    // SAFETY: the driver writes the handle when it answers success.
    unsafe { out(|pool| call!(functions, cuDeviceGetMemPool?(pool, device))) }
}

/// In the relaxed capture mode, since the driver may make the pool now.
pub(crate) fn mem_get_default_mem_pool(
    functions: &Functions,
    mut location: CUmemLocation,
    kind: CUmemAllocationType,
) -> Result<CUmemoryPool> {
    let location = &raw mut location;
    // SAFETY: the driver writes the handle when it answers success.
    relaxed(functions, || unsafe { out(|pool| call!(functions, cuMemGetDefaultMemPool?(pool, location, kind))) })
}

/// As [`mem_get_default_mem_pool`].
pub(crate) fn mem_get_mem_pool(
    functions: &Functions,
    mut location: CUmemLocation,
    kind: CUmemAllocationType,
) -> Result<CUmemoryPool> {
    let location = &raw mut location;
    // SAFETY: the driver writes the handle when it answers success.
    relaxed(functions, || unsafe { out(|pool| call!(functions, cuMemGetMemPool?(pool, location, kind))) })
}

/// The callers see to the relaxed mode: they hold a lock meanwhile, under which leaving it must not be reported.
///
/// # Safety
/// `pool` must be a live pool on `device`. Once it is not, the device's default pool takes its place.
pub(crate) unsafe fn device_set_mem_pool(functions: &Functions, device: CUdevice, pool: CUmemoryPool) -> Result<()> {
    call!(functions, cuDeviceSetMemPool?(device, pool))
}

/// # Safety
/// `pool` must be live.
pub(crate) unsafe fn mem_pool_get_access(
    functions: &Functions,
    pool: CUmemoryPool,
    mut location: CUmemLocation,
) -> Result<CUmemAccess_flags> {
    // SAFETY: the driver writes the flags when it answers success.
    relaxed(functions, || unsafe { out(|flags| call!(functions, cuMemPoolGetAccess?(flags, pool, &raw mut location))) })
}

/// # Safety
/// `pool` must be live, and no work of a device that loses access may use its memory from now on.
pub(crate) unsafe fn mem_pool_set_access(
    functions: &Functions,
    pool: CUmemoryPool,
    access: &CUmemAccessDesc_v1,
) -> Result<()> {
    relaxed(functions, || call!(functions, cuMemPoolSetAccess?(pool, access, 1)))
}
