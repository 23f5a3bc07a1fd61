//! Managed memory: outside pools, and where it is to be.

use core::ffi::{c_int, c_void};

use cuda_sys::{
    CUdevice, CUdeviceptr_v2, CUmem_advise, CUmem_range_attribute, CUmemAttach_flags_enum, CUmemLocation,
    CUmemLocationType, CUstream, Functions, Symbol,
};

use super::{call, out, stream::relaxed};
use crate::{Error, Result};

/// Managed memory that every stream of every device may use, not ordered on any.
///
/// # Safety
/// The current context must be the one that is to own the memory.
pub(crate) unsafe fn mem_alloc_managed(functions: &Functions, bytes: usize) -> Result<CUdeviceptr_v2> {
    // What could not be freed again is not allocated.
    if functions.cuMemFree.is_none() {
        return Err(Error::Unsupported(Symbol::cuMemFree));
    }
    let flags = CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL.0;
    // SAFETY: the driver writes the address when it answers success.
    relaxed(functions, || unsafe { out(|address| call!(functions, cuMemAllocManaged?(address, bytes, flags))) })
}

/// Waits for all work of the context.
///
/// # Safety
/// `address` must come from [`mem_alloc_managed`], and not be used afterwards by anybody.
pub(crate) unsafe fn mem_free(functions: &Functions, address: *mut c_void) -> Result<()> {
    relaxed(functions, || call!(functions, cuMemFree?(address.expose_provenance() as CUdeviceptr_v2)))
}

/// The device number that older calls take for a location; `None` if they have none for it.
const fn device_of(location: CUmemLocation) -> Option<CUdevice> {
    /// `CU_DEVICE_CPU`
    const HOST: CUdevice = -1;
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Some(location.id),
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => Some(HOST),
        _ => None,
    }
}

/// # Safety
/// The range must be managed memory, valid in `stream`'s order, and `stream` live.
pub(crate) unsafe fn mem_prefetch_async(
    functions: &Functions,
    (address, bytes): (CUdeviceptr_v2, usize),
    location: CUmemLocation,
    stream: CUstream,
) -> Result<()> {
    relaxed(functions, || match (functions.cuMemPrefetchAsync_v2, device_of(location)) {
        (None, Some(device)) => call!(functions, cuMemPrefetchAsync?(address, bytes, device, stream)),
        _ => call!(functions, cuMemPrefetchAsync_v2?(address, bytes, location, 0, stream)),
    })
}

/// # Safety
/// The range must be managed memory that is live.
pub(crate) unsafe fn mem_advise(
    functions: &Functions,
    (address, bytes): (CUdeviceptr_v2, usize),
    advice: CUmem_advise,
    location: CUmemLocation,
) -> Result<()> {
    relaxed(functions, || match (functions.cuMemAdvise_v2, device_of(location)) {
        (None, Some(device)) => call!(functions, cuMemAdvise?(address, bytes, advice, device)),
        _ => call!(functions, cuMemAdvise_v2?(address, bytes, advice, location)),
    })
}

/// Fills `values` with what the driver says of the whole range.
///
/// # Safety
/// The range must be managed memory that is live, and the driver's documentation give 32-bit integers for `attribute`,
/// as many as there are `values`.
pub(crate) unsafe fn mem_range_get_attribute(
    functions: &Functions,
    (address, bytes): (CUdeviceptr_v2, usize),
    attribute: CUmem_range_attribute,
    values: &mut [c_int],
) -> Result<()> {
    let (data, size) = (values.as_mut_ptr().cast(), size_of_val(values));
    relaxed(functions, || call!(functions, cuMemRangeGetAttribute?(data, size, attribute, address, bytes)))
}
