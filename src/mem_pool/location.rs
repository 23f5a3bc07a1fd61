//! Where a pool's memory lies, of which kind it is, and with whom it can be shared.

use core::{fmt, ops::BitOr};

use cuda_sys::{CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType};

use crate::Device;

/// Where a pool's memory lies; of [managed](MemKind::Managed) memory, where it would rather lie.
#[doc(alias = "CUmemLocation")]
#[doc(alias = "CUmemLocationType")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemPoolLocation {
    /// In the memory of the pool's device.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_DEVICE")]
    #[default]
    Device,
    /// In the host's memory, on whichever node. Since CUDA 13.0.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_HOST")]
    Host,
    /// In the memory of the host's NUMA node with that number. Since CUDA 12.2.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_HOST_NUMA")]
    HostNuma(i32),
    /// In the memory of the host's NUMA node nearest to the pool's device, which [`Device::host_numa_id`] tells. A pool
    /// made so says [`HostNuma`](Self::HostNuma) when it is asked. Since CUDA 12.2.
    NearestHostNuma,
    /// Nowhere in particular: only managed memory can be so. Since CUDA 13.0.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_NONE")]
    Unspecified,
}

impl MemPoolLocation {
    /// What the driver calls such a place.
    pub(super) const fn raw_type(self) -> CUmemLocationType {
        match self {
            Self::Device => CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            Self::Host => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
            Self::HostNuma(_) | Self::NearestHostNuma => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA,
            Self::Unspecified => CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE,
        }
    }

    /// `None` for memory of another device, memory that this process cannot see, and what is newer than this crate.
    pub(super) const fn from_raw(raw: CUmemLocation, device: Device) -> Option<Self> {
        match raw.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE if raw.id == device.as_raw() => Some(Self::Device),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => Some(Self::Host),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => Some(Self::HostNuma(raw.id)),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE => Some(Self::Unspecified),
            _ => None,
        }
    }

    /// Whether it is the host's, for certain.
    pub(super) const fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::HostNuma(_) | Self::NearestHostNuma)
    }
}

/// Whether memory stays where it is.
#[doc(alias = "CUmemAllocationType")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemKind {
    /// It stays.
    #[doc(alias = "CU_MEM_ALLOCATION_TYPE_PINNED")]
    #[default]
    Pinned,
    /// It moves to whoever uses it. Since CUDA 13.0.
    #[doc(alias = "CU_MEM_ALLOCATION_TYPE_MANAGED")]
    Managed,
}

impl MemKind {
    pub(super) const fn to_raw(self) -> CUmemAllocationType {
        match self {
            Self::Pinned => CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            Self::Managed => CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED,
        }
    }

    /// `None` for a kind that is newer than this crate.
    pub(super) const fn from_raw(raw: CUmemAllocationType) -> Option<Self> {
        match raw {
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED => Some(Self::Pinned),
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED => Some(Self::Managed),
            _ => None,
        }
    }
}

/// A set of the kinds of handle by which other processes can be given a pool: `POSIX_FD | FABRIC`, say.
///
/// Windows' handles are not among them: they need security attributes, which this crate does not pass on.
#[doc(alias = "CUmemAllocationHandleType")]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MemHandleTypes(u32);

impl MemHandleTypes {
    /// None: the pool cannot be shared.
    #[doc(alias = "CU_MEM_HANDLE_TYPE_NONE")]
    pub const NONE: Self = Self(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE.0);
    /// File descriptors, for processes of one Unix system.
    #[doc(alias = "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")]
    pub const POSIX_FD: Self = Self(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0);
    /// Fabric handles, for processes of several systems that are joined by NVLink and share an IMEX channel. Since
    /// CUDA 12.3.
    #[doc(alias = "CU_MEM_HANDLE_TYPE_FABRIC")]
    pub const FABRIC: Self = Self(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC.0);

    /// Those of the driver's mask, as [`Device::mem_pool_supported_handle_types`] answers it. Bits that have no name
    /// here are kept.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The driver's mask.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `others` are among these.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Those of both.
    #[must_use]
    pub const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

impl BitOr for MemHandleTypes {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        self.union(others)
    }
}

impl fmt::Debug for MemHandleTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [("POSIX_FD", Self::POSIX_FD), ("FABRIC", Self::FABRIC)];
        let mut rest = self.0;
        let mut set = f.debug_set();
        for (name, of) in names.into_iter().filter(|(_, of)| self.contains(*of)) {
            set.entry(&format_args!("{name}"));
            rest &= !of.0;
        }
        if rest != 0 {
            set.entry(&format_args!("{rest:#x}"));
        }
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_types_are_a_set_and_print_as_one() {
        let both = MemHandleTypes::POSIX_FD | MemHandleTypes::FABRIC;
        assert_eq!(both.bits(), 9);
        assert!(both.contains(MemHandleTypes::FABRIC) && !MemHandleTypes::FABRIC.contains(both));
        assert!(MemHandleTypes::NONE.is_empty() && both.contains(MemHandleTypes::NONE));
        assert_eq!(format!("{:?}", MemHandleTypes::from_bits(0x19)), "{POSIX_FD, FABRIC, 0x10}");
        assert_eq!(format!("{:?}", MemHandleTypes::NONE), "{}");
    }
}
