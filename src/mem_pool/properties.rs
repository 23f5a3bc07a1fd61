//! How a pool is to be made, and what is asked of device and driver before it is.

use cuda_sys::{
    CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS, CUdevice_attribute, CUmemAllocationHandleType, CUmemLocation,
    CUmemPoolProps_v1, CUresult,
};

use super::{MemHandleTypes, MemKind, MemPoolLocation};
use crate::{Device, Error, Result};

/// How a pool is made: in the device's memory, pinned, keeping all it has, without a limit, unless told otherwise.
///
/// | pool | since | the device must say |
/// | --- | --- | --- |
/// | in device memory, pinned | 11.2 | [`memory_pools_supported`](Device::memory_pools_supported) |
/// | … with a [`max_size`](Self::max_size) | 12.2 | |
/// | … to be shared by file descriptors | 11.2 | [`mem_pool_supported_handle_types`](Device::mem_pool_supported_handle_types) |
/// | … to be shared by fabric handles | 12.3 | the same |
/// | … for hardware decompression | 12.8 | [`mem_decompress_algorithms`](Device::mem_decompress_algorithms) |
/// | on a NUMA node of the host, pinned; across systems if [`host_numa_multinode_ipc_supported`](Device::host_numa_multinode_ipc_supported) | 12.2 | [`host_numa_memory_pools_supported`](Device::host_numa_memory_pools_supported) (since 12.9) |
/// | in host memory, pinned; cannot be shared | 13.0 | [`host_memory_pools_supported`](Device::host_memory_pools_supported) |
/// | managed, in any of these places or in none; without limit, cannot be shared | 13.0 | [`concurrent_managed_access`](Device::concurrent_managed_access), every device |
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let near = MemPoolProperties::new().location(MemPoolLocation::NearestHostNuma).max_size(64 << 20);
/// let pool = MemPool::with_properties(&device, &near)?;
/// let stream = Stream::new(&context)?;
/// // The device can use it, as it can its own memory.
/// assert_eq!(pool.alloc_zeroed::<u8, _>(3, &stream)?.to_vec()?, [0; 3]);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "CUmemPoolProps")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct MemPoolProperties {
    /// See [`location`](Self::location).
    pub location: MemPoolLocation,
    /// See [`kind`](Self::kind).
    pub kind: MemKind,
    /// See [`max_size`](Self::max_size).
    pub max_size: usize,
    /// See [`release_threshold`](Self::release_threshold).
    pub release_threshold: u64,
    /// See [`handle_types`](Self::handle_types).
    pub handle_types: MemHandleTypes,
    /// See [`hw_decompress`](Self::hw_decompress).
    pub hw_decompress: bool,
}

impl Default for MemPoolProperties {
    fn default() -> Self {
        Self::new()
    }
}

impl MemPoolProperties {
    /// Pinned memory of the device, all of which the pool keeps, without a limit.
    pub const fn new() -> Self {
        Self {
            location: MemPoolLocation::Device,
            kind: MemKind::Pinned,
            max_size: 0,
            release_threshold: u64::MAX,
            handle_types: MemHandleTypes::NONE,
            hw_decompress: false,
        }
    }

    /// Where the memory lies. A pool of pinned host memory is opened to its device when it is made, for reading and
    /// writing; the driver by itself leaves it to the host.
    pub const fn location(mut self, location: MemPoolLocation) -> Self {
        self.location = location;
        self
    }

    /// Whether the memory stays there, or moves.
    pub const fn kind(mut self, kind: MemKind) -> Self {
        self.kind = kind;
        self
    }

    /// How many bytes the pool may hold at all; 0 is no limit. The driver rounds it up, and reserves as many
    /// addresses: without a limit, twice the device's memory for each pool. Since CUDA 12.2.
    pub const fn max_size(mut self, bytes: usize) -> Self {
        self.max_size = bytes;
        self
    }

    /// How many bytes the pool may keep when a stream, event or context is synchronised.
    pub const fn release_threshold(mut self, bytes: u64) -> Self {
        self.release_threshold = bytes;
        self
    }

    /// By which handles other processes may be given the pool. One that can be given away cannot allocate in a capture.
    pub const fn handle_types(mut self, types: MemHandleTypes) -> Self {
        self.handle_types = types;
        self
    }

    /// Whether the memory is to be read by the decompression engine. Since CUDA 12.8.
    #[doc(alias = "CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS")]
    pub const fn hw_decompress(mut self, on: bool) -> Self {
        self.hw_decompress = on;
        self
    }

    /// Fails where the driver's documentation knows no such pool. No call is made.
    fn ensure_whole(&self) -> Result<()> {
        let managed = self.kind == MemKind::Managed;
        let offered = MemHandleTypes::POSIX_FD | MemHandleTypes::FABRIC;
        let wrong = if !offered.contains(self.handle_types) {
            "of handles, only file descriptors and fabric handles are offered"
        } else if managed && self.max_size != 0 {
            "managed memory takes no limit"
        } else if managed && !self.handle_types.is_empty() {
            "managed memory cannot be shared by handles"
        } else if managed && self.hw_decompress {
            "managed memory cannot be decompressed from in hardware"
        } else if self.location == MemPoolLocation::Host && !self.handle_types.is_empty() {
            "host memory of no particular node cannot be shared by handles"
        } else {
            return Ok(());
        };
        Err(Error::PoolProperties(wrong))
    }

    /// Fails where a driver of that version has no such pool.
    fn ensure_since(&self, version: u32) -> Result<()> {
        let needs = [
            (self.kind == MemKind::Managed, "managed memory", 13000),
            (self.location == MemPoolLocation::Host, "host memory", 13000),
            (self.location.is_host(), "memory of a NUMA node", 12020),
            (self.hw_decompress, "memory for hardware decompression", 12080),
            (self.handle_types.contains(MemHandleTypes::FABRIC), "fabric handles", 12030),
            (self.max_size != 0, "a size limit", 12020),
        ];
        for (needed, property, since) in needs {
            if needed && version < since {
                return Err(Error::PropertyUnsupported { property, since });
            }
        }
        Ok(())
    }

    /// The place that the driver is to be told, once everything that `device` can be asked about has been: nothing is
    /// made that could not be used.
    pub(super) fn admitted(&self, device: Device, version: u32) -> Result<CUmemLocation> {
        use CUdevice_attribute as A;
        self.ensure_whole()?;
        self.ensure_since(version)?;
        let location = admitted_location(device, self.location, self.kind)?;
        let types = self.handle_types.bits();
        if types != 0 {
            deny(device, A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, |supported| {
                types & !supported.cast_unsigned() != 0
            })?;
        }
        if self.location.is_host() && self.handle_types.contains(MemHandleTypes::FABRIC) {
            deny(device, A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, |supported| supported == 0)?;
        }
        if self.hw_decompress {
            deny(device, A::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, |algorithms| algorithms == 0)?;
        }
        Ok(location)
    }

    /// As the driver reads them.
    pub(super) const fn to_raw(self, location: CUmemLocation) -> CUmemPoolProps_v1 {
        CUmemPoolProps_v1 {
            allocType: self.kind.to_raw(),
            handleTypes: CUmemAllocationHandleType(self.handle_types.bits()),
            location,
            win32SecurityAttributes: core::ptr::null_mut(),
            maxSize: self.max_size,
            usage: if self.hw_decompress { CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS as u16 } else { 0 },
            reserved: [0; 54],
        }
    }
}

/// The place that the driver is to be told, if `device` has pools of that kind there.
pub(super) fn admitted_location(device: Device, location: MemPoolLocation, kind: MemKind) -> Result<CUmemLocation> {
    use CUdevice_attribute as A;
    let lacks = |supported| supported == 0;
    if kind != MemKind::Managed && location == MemPoolLocation::Unspecified {
        return Err(Error::PoolProperties("memory that stays lies somewhere"));
    }
    if kind == MemKind::Managed {
        // The driver makes no managed pool while any device is without.
        for ordinal in 0..device.driver().device_count()? {
            let device = device.driver().device(ordinal)?;
            deny(device, A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, lacks)?;
        }
    }
    let id = match location {
        MemPoolLocation::Device => device.as_raw(),
        MemPoolLocation::Unspecified => 0,
        MemPoolLocation::Host => {
            deny(device, A::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, lacks)?;
            0
        }
        MemPoolLocation::HostNuma(_) | MemPoolLocation::NearestHostNuma => {
            deny(device, A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, lacks)?;
            match location {
                MemPoolLocation::HostNuma(node) => node,
                _ => nearest_node(device)?,
            }
        }
    };
    Ok(CUmemLocation { type_: location.raw_type(), id })
}

fn nearest_node(device: Device) -> Result<i32> {
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
    let node = device.attribute(attribute)?;
    if node < 0 {
        return Err(Error::PoolKindUnsupported { device: device.as_raw(), attribute, value: node });
    }
    Ok(node)
}

/// Fails if the device answers what `denies`. A driver that is too old for the question is given the benefit of the
/// doubt: the pool's creation tells.
fn deny(device: Device, attribute: CUdevice_attribute, denies: impl FnOnce(i32) -> bool) -> Result<()> {
    match device.attribute(attribute) {
        Ok(value) if denies(value) => Err(Error::PoolKindUnsupported { device: device.as_raw(), attribute, value }),
        Err(error) if error.code() != Some(CUresult::CUDA_ERROR_INVALID_VALUE) => Err(error),
        _ => Ok(()),
    }
}
