//! Where managed memory can be, or be wanted.

use cuda_sys::{CUmemLocation, CUmemLocationType};

use crate::{Device, Driver};

/// A place for managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemLocation {
    /// A device's memory.
    Device(Device),
    /// The host's memory, anywhere.
    Host,
    /// The host's memory on the NUMA node with this number. Since CUDA 12.2.
    HostNuma(i32),
    /// The host's memory on the NUMA node of the thread that makes the call. Since CUDA 12.2.
    HostNumaCurrent,
}

impl MemLocation {
    pub(super) const fn to_raw(self) -> CUmemLocation {
        let (type_, id) = match self {
            Self::Device(device) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, device.as_raw()),
            Self::Host => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
            Self::HostNuma(node) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node),
            Self::HostNumaCurrent => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0),
        };
        CUmemLocation { type_, id }
    }

    /// `None` for no location, and for a kind without a name here.
    pub(super) const fn from_raw(driver: Driver, location: CUmemLocation) -> Option<Self> {
        match location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Some(Self::Device(Device::from_raw(driver, location.id))),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => Some(Self::Host),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => Some(Self::HostNuma(location.id)),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Some(Self::HostNumaCurrent),
            _ => None,
        }
    }

    /// From the number that older questions answer with: a device's, or -1 for the host.
    pub(super) const fn from_number(driver: Driver, number: i32) -> Option<Self> {
        match number {
            0.. => Some(Self::Device(Device::from_raw(driver, number))),
            -1 => Some(Self::Host),
            _ => None,
        }
    }
}
