//! Memory that graphs hold on a device. Devices go by number, so that a wrong one is an error.

use cuda_sys::{CUdevice, CUgraphMem_attribute, Functions};

use super::{call, out};
use crate::Result;

/// Every attribute there is counts bytes, as `cuuint64_t`.
pub(crate) fn device_get_graph_mem_attribute(
    functions: &Functions,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
) -> Result<u64> {
    // SAFETY: the driver writes a `cuuint64_t` when it answers success.
    unsafe { out(|value: *mut u64| call!(functions, cuDeviceGetGraphMemAttribute?(device, attribute, value.cast()))) }
}

/// The driver takes nothing but 0, and only for the two peaks.
pub(crate) fn device_reset_graph_mem_attribute(
    functions: &Functions,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
) -> Result<()> {
    let mut zero = 0_u64;
    call!(functions, cuDeviceSetGraphMemAttribute?(device, attribute, (&raw mut zero).cast()))
}

pub(crate) fn device_graph_mem_trim(functions: &Functions, device: CUdevice) -> Result<()> {
    call!(functions, cuDeviceGraphMemTrim?(device))
}
