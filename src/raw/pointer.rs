//! What the driver knows about an address.

use core::ffi::{c_uint, c_void};

use cuda_sys::{CUdeviceptr_v2, CUpointer_attribute, Functions};

use super::{call, stream::relaxed};
use crate::Result;

/// A yes or no about an address that the driver knows; it refuses others.
///
/// # Safety
/// The driver's documentation must give a boolean for `attribute`. `address` must not be that of memory that was freed
/// in stream order.
pub(crate) unsafe fn pointer_get_flag(
    functions: &Functions,
    attribute: CUpointer_attribute,
    address: CUdeviceptr_v2,
) -> Result<bool> {
    // Of one byte or of four, which the documentation does not say: what is not written stays 0.
    let mut value: c_uint = 0;
    relaxed(functions, || call!(functions, cuPointerGetAttribute?((&raw mut value).cast(), attribute, address)))?;
    Ok(value != 0)
}

/// Answers success for an address that it does not know, too, and leaves values that say so.
///
/// # Safety
/// Each of `values` must be writable, as the type that the driver's documentation gives for the attribute at its place.
/// `address` must not be that of memory that was freed in stream order.
pub(crate) unsafe fn pointer_get_attributes<const N: usize>(
    functions: &Functions,
    mut attributes: [CUpointer_attribute; N],
    mut values: [*mut c_void; N],
    address: CUdeviceptr_v2,
) -> Result<()> {
    let count = u32::try_from(N).unwrap_or(0);
    let (kinds, values) = (attributes.as_mut_ptr(), values.as_mut_ptr());
    relaxed(functions, || call!(functions, cuPointerGetAttributes?(count, kinds, values, address)))
}
