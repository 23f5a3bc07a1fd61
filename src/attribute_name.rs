//! The driver's names for attributes that errors are about.

use cuda_sys::{CUdevice_attribute, CUmemPool_attribute};

macro_rules! names {
    ($( $(#[$doc:meta])* $function:ident($type:ident) else $otherwise:literal: $($name:ident)*; )*) => { $(
        $(#[$doc])*
        pub(crate) const fn $function(attribute: &$type) -> &'static str {
            match *attribute {
                $( $type::$name => stringify!($name), )*
                _ => $otherwise,
            }
        }
    )* };
}

names! {
    /// An attribute of devices that says whether pools of some kind work.
    of_device(CUdevice_attribute) else "an attribute of devices":
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES
        CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
        CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;
    /// An attribute of pools.
    of_pool(CUmemPool_attribute) else "an attribute of pools":
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES
        CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT
        CU_MEMPOOL_ATTR_USED_MEM_HIGH
        CU_MEMPOOL_ATTR_ALLOCATION_TYPE
        CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES
        CU_MEMPOOL_ATTR_LOCATION_ID
        CU_MEMPOOL_ATTR_LOCATION_TYPE
        CU_MEMPOOL_ATTR_MAX_POOL_SIZE
        CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED;
}

/// The CUDA version that introduced an attribute of pools, as `1000 * major + 10 * minor`.
pub(crate) const fn pool_since(attribute: &CUmemPool_attribute) -> u32 {
    if attribute.0 < CUmemPool_attribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE.0 { 11020 } else { 13020 }
}
