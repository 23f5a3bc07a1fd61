//! Devices: by number, so that a wrong one is an error and not undefined behaviour.

use core::ffi::{c_char, c_int};

use cuda_sys::{CUdevice, CUdevice_attribute, CUuuid, Functions};

use super::{call, out};
use crate::{Error, Result};

pub(crate) fn device_get_count(functions: &Functions) -> Result<c_int> {
    // SAFETY: the driver writes the count when it answers success.
    unsafe { out(|count| call!(functions, cuDeviceGetCount(count))) }
}

pub(crate) fn device_get(functions: &Functions, ordinal: c_int) -> Result<CUdevice> {
    // SAFETY: the driver writes the device when it answers success.
    unsafe { out(|device| call!(functions, cuDeviceGet(device, ordinal))) }
}

pub(crate) fn device_get_attribute(
    functions: &Functions,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> Result<c_int> {
    // SAFETY: the driver writes the value when it answers success.
    unsafe { out(|value| call!(functions, cuDeviceGetAttribute(value, attribute, device))) }
}

/// Fills `text` with a terminated string.
pub(crate) fn device_get_name(functions: &Functions, text: &mut [c_char], device: CUdevice) -> Result<()> {
    let capacity = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
    call!(functions, cuDeviceGetName?(text.as_mut_ptr(), capacity, device))
}

/// Fills `text` with a terminated string.
pub(crate) fn device_get_pci_bus_id(functions: &Functions, text: &mut [c_char], device: CUdevice) -> Result<()> {
    let capacity = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
    call!(functions, cuDeviceGetPCIBusId?(text.as_mut_ptr(), capacity, device))
}

/// The UUID; that of the MIG instance where the device is one and the driver can tell.
pub(crate) fn device_get_uuid(functions: &Functions, device: CUdevice) -> Result<CUuuid> {
    // SAFETY: the driver writes the UUID when it answers success.
    match unsafe { out(|uuid| call!(functions, cuDeviceGetUuid_v2?(uuid, device))) } {
        // SAFETY: as above.
        Err(Error::Unsupported(_)) => unsafe { out(|uuid| call!(functions, cuDeviceGetUuid?(uuid, device))) },
        answer => answer,
    }
}

pub(crate) fn device_total_mem(functions: &Functions, device: CUdevice) -> Result<usize> {
    // SAFETY: the driver writes the size when it answers success.
    unsafe { out(|bytes| call!(functions, cuDeviceTotalMem?(bytes, device))) }
}

pub(crate) fn device_can_access_peer(functions: &Functions, device: CUdevice, peer: CUdevice) -> Result<bool> {
    // SAFETY: the driver writes the answer when it answers success.
    let can: c_int = unsafe { out(|can| call!(functions, cuDeviceCanAccessPeer?(can, device, peer)))? };
    Ok(can != 0)
}
