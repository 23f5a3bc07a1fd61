//! What devices answer for their attributes: values of an H200, where it has been asked.

use cuda_sys::CUdevice_attribute;

use crate::options::Builder;

/// The bus that a device is on.
pub(crate) const fn pci_bus(ordinal: usize) -> i32 {
    0x1b + 0x10 * ordinal as i32
}

/// The newest attribute that a driver of that version has.
const fn newest(version: u32) -> u32 {
    match version {
        ..11_040 => 119,
        11_040..11_070 => 121,
        11_070..12_000 => 124,
        12_000..12_010 => 129,
        12_010..12_020 => 132,
        12_020..12_050 => 134,
        12_050..12_080 => 135,
        12_080..13_000 => 143,
        13_000..13_010 => 147,
        _ => 148,
    }
}

/// Whether a driver of that version has the attribute.
const fn exists(attribute: CUdevice_attribute, version: u32) -> bool {
    use CUdevice_attribute as A;
    match attribute {
        // Named later than their numbers say.
        A::CU_DEVICE_ATTRIBUTE_NUMA_CONFIG | A::CU_DEVICE_ATTRIBUTE_NUMA_ID => version >= 12_020,
        A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED => version >= 12_030,
        A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED => version >= 12_090,
        CUdevice_attribute(number) => number <= newest(version),
    }
}

/// The device's answer; `None` for an attribute that does not exist, or that the driver is too old for.
pub(crate) fn value(options: &Builder, ordinal: usize, attribute: CUdevice_attribute) -> Option<i32> {
    use CUdevice_attribute as A;
    if options.unknown.contains(&attribute.0) {
        return None;
    }
    if let Some(value) = options.attributes.get(&attribute.0) {
        return Some(*value);
    }
    if !exists(attribute, options.driver_version) {
        return None;
    }
    let pools = i32::from(options.pools_supported);
    Some(match attribute {
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
        | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => 1024,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X | A::CU_DEVICE_ATTRIBUTE_MAX_PITCH => i32::MAX,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y | A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65_535,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => 49_152,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 232_448,
        A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => 233_472,
        A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => 1024,
        A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY
        | A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
        | A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => 65_536,
        A::CU_DEVICE_ATTRIBUTE_WARP_SIZE | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => 32,
        A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE => 1_980_000,
        A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => 3_201_000,
        A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => 6144,
        A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => 62_914_560,
        A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => 132,
        A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => 2048,
        A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 3,
        A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => pci_bus(ordinal),
        A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => 9,
        A::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED => pools,
        // Fabric handles came with 12.3.
        A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES if options.driver_version < 12_030 => pools,
        A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES => 9 * pools,
        // An H200 cannot decompress in hardware.
        A::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK
        | A::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH
        | A::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT
        | A::CU_DEVICE_ATTRIBUTE_INTEGRATED
        | A::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE
        | A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID
        | A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID
        | A::CU_DEVICE_ATTRIBUTE_TCC_DRIVER
        | A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        | A::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD
        | A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
        | A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
        | A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
        | A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
        | A::CU_DEVICE_ATTRIBUTE_NUMA_CONFIG
        | A::CU_DEVICE_ATTRIBUTE_MPS_ENABLED
        | A::CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED
        | A::CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED => 0,
        A::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID => ordinal as i32,
        A::CU_DEVICE_ATTRIBUTE_NUMA_ID => -1,
        // The rest of the attributes are yes or no, and an H200 says yes.
        CUdevice_attribute(1..=148) => 1,
        _ => return None,
    })
}
