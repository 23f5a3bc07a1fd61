//! Devices: what there is, and what it can do.

use core::{
    ffi::{CStr, c_char},
    fmt,
};

use cuda_sys::{CUdevice, CUdevice_attribute, CUresult};

use crate::{Driver, Error, Result, gate, raw};

/// A device, by its number in this process. Free to copy; it holds nothing on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    driver: Driver,
    raw: CUdevice,
}

impl Device {
    pub(crate) fn new(driver: Driver, ordinal: u32) -> Result<Self> {
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        Ok(Self { driver, raw: raw::device::device_get(driver.functions(), ordinal)? })
    }

    /// Takes the driver's own number for a device. A number that is none makes the calls fail, nothing worse.
    #[must_use]
    pub const fn from_raw(driver: Driver, raw: CUdevice) -> Self {
        Self { driver, raw }
    }

    /// The driver's own number for it, also the device's ordinal.
    #[must_use]
    #[inline]
    pub const fn as_raw(self) -> CUdevice {
        self.raw
    }

    /// The driver it belongs to.
    #[must_use]
    #[inline]
    pub const fn driver(self) -> Driver {
        self.driver
    }

    /// The device's name, such as `NVIDIA H200`.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(self) -> Result<String> {
        let mut text = [0; 256];
        raw::device::device_get_name(self.driver.functions(), &mut text, self.raw)?;
        Ok(terminated(&text))
    }

    /// Where the device sits on the PCI bus, such as `0000:3B:00.0`: in capital letters, where Linux has small ones.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuDeviceGetPCIBusId")]
    pub fn pci_bus_id(self) -> Result<String> {
        let mut text = [0; 32];
        raw::device::device_get_pci_bus_id(self.driver.functions(), &mut text, self.raw)?;
        Ok(terminated(&text))
    }

    /// The device's UUID; the MIG instance's own where the device is one, since CUDA 11.4.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuDeviceGetUuid")]
    pub fn uuid(self) -> Result<Uuid> {
        let uuid = raw::device::device_get_uuid(self.driver.functions(), self.raw)?;
        Ok(Uuid(uuid.bytes.map(c_char::cast_unsigned)))
    }

    /// The device's memory in bytes.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuDeviceTotalMem")]
    pub fn total_memory(self) -> Result<usize> {
        raw::device::device_total_mem(self.driver.functions(), self.raw)
    }

    /// Any attribute, as the driver counts it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the driver is older than the attribute.
    #[doc(alias = "cuDeviceGetAttribute")]
    pub fn attribute(self, attribute: CUdevice_attribute) -> Result<i32> {
        raw::device::device_get_attribute(self.driver.functions(), attribute, self.raw)
    }

    /// Whether kernels and copies of this device can reach `peer`'s memory. Pools must grant it besides.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::DriverMismatch`] if `peer` is of another driver.
    #[doc(alias = "cuDeviceCanAccessPeer")]
    pub fn can_access_peer(self, peer: Self) -> Result<bool> {
        self.driver.ensure_same(peer.driver)?;
        raw::device::device_can_access_peer(self.driver.functions(), self.raw, peer.raw)
    }

    /// Major and minor compute capability.
    ///
    /// # Errors
    /// Whatever the driver answers.
    pub fn compute_capability(self) -> Result<(i32, i32)> {
        Ok((
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// Fails if the device is known to have no memory pools. A driver that cannot say is given the benefit of the
    /// doubt: the pool's creation tells.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`], or whatever the driver answers.
    pub fn ensure_memory_pools_supported(self) -> Result<()> {
        // Pools come next.
        gate::arm()?;
        match self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) {
            Ok(0) => Err(Error::PoolsUnsupported { device: self.raw }),
            Err(error) if error.code() != Some(CUresult::CUDA_ERROR_INVALID_VALUE) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Attributes with names of their own.
macro_rules! attributes {
    ($( $(#[$doc:meta])* $name:ident: $kind:ident = $attribute:ident; )*) => {
        impl Device { $(
            $(#[$doc])*
            ///
            /// # Errors
            /// `CUDA_ERROR_INVALID_VALUE` if the driver is older than the attribute.
            ///
            #[doc = concat!("The driver calls it `", stringify!($attribute), "`.")]
            pub fn $name(self) -> Result<attributes!(@type $kind)> {
                let value = self.attribute(CUdevice_attribute::$attribute)?;
                Ok(attributes!(@value $kind value))
            }
        )* }
    };
    (@type flag) => { bool };
    (@type count) => { u32 };
    (@type number) => { i32 };
    (@value flag $value:ident) => { $value != 0 };
    (@value count $value:ident) => { u32::try_from($value).unwrap_or(0) };
    (@value number $value:ident) => { $value };
}

attributes! {
    /// Whether stream-ordered memory pools work on it.
    memory_pools_supported: flag = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    /// The handle types with which its pools can be shared, as a mask of `CUmemAllocationHandleType`.
    mem_pool_supported_handle_types: count = CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
    /// Whether pools can lie in host memory.
    host_memory_pools_supported: flag = CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED;
    /// Whether pools can lie on a NUMA node of the host.
    host_numa_memory_pools_supported: flag = CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED;
    /// Whether pools on a NUMA node of the host can be shared between systems, by fabric handles.
    host_numa_multinode_ipc_supported: flag = CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED;
    /// What it can decompress in hardware, as a mask of `CUmemDecompressAlgorithm`; 0 is nothing.
    mem_decompress_algorithms: count = CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;
    /// The host's NUMA node nearest to it; negative if the system has none or the driver cannot say.
    host_numa_id: number = CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
    /// Whether it can address managed memory.
    managed_memory: flag = CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    /// Whether host and device may use managed memory at the same time.
    concurrent_managed_access: flag = CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    /// Whether it can read ordinary host memory directly.
    pageable_memory_access: flag = CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
    /// Whether host memory can be registered (pinned in place).
    host_register_supported: flag = CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED;
    /// Whether host and device share one address space.
    unified_addressing: flag = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
    /// Whether virtual memory management (mapping by hand) works on it.
    virtual_memory_management_supported: flag = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    /// Whether it shares memory between hosts by fabric handles.
    fabric_handle_supported: flag = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
    /// Whether GPUDirect RDMA reaches its memory.
    gpu_direct_rdma_supported: flag = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
    /// Whether events can be shared between processes.
    ipc_event_supported: flag = CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;
    /// Whether it is part of the host's chip.
    integrated: flag = CU_DEVICE_ATTRIBUTE_INTEGRATED;
    /// Whether error correction of its memory is on.
    ecc_enabled: flag = CU_DEVICE_ATTRIBUTE_ECC_ENABLED;
    /// Whether a watchdog ends kernels that run long.
    kernel_execution_timeout: flag = CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT;
    /// Whether several kernels can run at once.
    concurrent_kernels: flag = CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS;
    /// Whether streams can have priorities.
    stream_priorities_supported: flag = CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED;
    /// Copies that can run beside kernels.
    async_engine_count: count = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
    /// Number of multiprocessors.
    multiprocessor_count: count = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    /// Threads in a warp.
    warp_size: count = CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    /// Threads in a block, at most.
    max_threads_per_block: count = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    /// Shared memory of a block in bytes, at most, without opting in to more.
    max_shared_memory_per_block: count = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;
    /// Bytes of L2 cache.
    l2_cache_size: count = CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
    /// Width of the memory bus in bits.
    memory_bus_width: count = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
    /// Peak clock of the memory in kHz.
    memory_clock_rate: count = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
    /// Peak clock of the multiprocessors in kHz.
    clock_rate: count = CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
}

/// A device's UUID. Prints as the driver's tools do, less their prefix `GPU-`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The sixteen bytes.
    #[must_use]
    pub const fn into_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text up to the terminator; all of it if the driver left none.
fn terminated(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|byte| byte.cast_unsigned()).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}
