//! What pools are asked and told: attributes, trimming, access.

use core::ffi::c_void;

use cuda_sys::*;

use crate::{
    args::{In, Out},
    pool::{Pool, at_device},
    state::{Answer, State},
};

type Attribute = CUmemPool_attribute;

pub(crate) fn get(state: &mut State, pool: CUmemoryPool, attribute: Attribute, value: Out<c_void>) -> Answer {
    value.required()?;
    state.pool(pool)?;
    state.unsafe_in_capture()?;
    let newer = state.options.driver_version >= 13_020;
    let (_, pool) = state.pool(pool)?;
    if let Some(flag) = reuse_flag(pool, attribute) {
        return value.cast::<i32>().set(i32::from(*flag));
    }
    if newer && let Some(word) = word(pool, attribute) {
        return value.cast::<u32>().set(word);
    }
    let (reserved, reserved_high) = pool.reserved();
    value.cast::<cuuint64_t>().set(match attribute {
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => pool.threshold,
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => reserved,
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => reserved_high,
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => pool.used,
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => pool.used_high,
        Attribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE if newer => pool.max_size(),
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    })
}

/// The attributes of 32 bits that tell how a pool was made.
fn word(pool: &Pool, attribute: Attribute) -> Option<u32> {
    Some(match attribute {
        Attribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE => pool.kind.0,
        Attribute::CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES => pool.handle_types,
        Attribute::CU_MEMPOOL_ATTR_LOCATION_ID => pool.location.id.cast_unsigned(),
        Attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE => pool.location.type_.0,
        Attribute::CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED => pool.hw_decompress.into(),
        _ => return None,
    })
}

fn reuse_flag(pool: &mut Pool, attribute: Attribute) -> Option<&mut bool> {
    let [follow_events, opportunistic, internal_dependencies] = &mut pool.reuse;
    Some(match attribute {
        Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES => follow_events,
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC => opportunistic,
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => internal_dependencies,
        _ => return None,
    })
}

pub(crate) fn set(state: &mut State, pool: CUmemoryPool, attribute: Attribute, value: Out<c_void>) -> Answer {
    value.required()?;
    state.pool(pool)?;
    state.unsafe_in_capture()?;
    if state.ignoring {
        return Ok(());
    }
    let (_, pool) = state.pool(pool)?;
    if let Some(flag) = reuse_flag(pool, attribute) {
        *flag = value.cast::<i32>().get()? != 0;
        return Ok(());
    }
    let value = value.cast::<cuuint64_t>().get()?;
    match attribute {
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => pool.threshold = value,
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH if value == 0 => pool.reset_reserved_high(),
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH if value == 0 => pool.used_high = pool.used,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
    Ok(())
}

pub(crate) fn trim(state: &mut State, pool: CUmemoryPool, keep: usize) -> Answer {
    let (number, _) = state.pool(pool)?;
    state.unsafe_in_capture()?;
    state.trim_pool(number, keep as u64);
    Ok(())
}

impl State {
    /// Gives back what is idle in a pool, down to `keep` bytes.
    pub(crate) fn trim_pool(&mut self, number: u32, keep: u64) {
        let Some(pool) = self.pools.get_mut(number) else { return };
        pool.host.shrink(keep, &self.queues);
        if let Some(space) = &mut pool.space {
            let unmapped = space.shrink(keep, &self.queues);
            if let Some(device) = self.devices.get_mut(pool.device) {
                device.reserved = device.reserved.saturating_sub(unmapped);
            }
        }
    }
}

pub(crate) fn get_access(
    state: &mut State,
    flags: Out<CUmemAccess_flags>,
    pool: CUmemoryPool,
    location: In<CUmemLocation_v1>,
) -> Answer {
    flags.required()?;
    let location = location.get()?;
    state.pool(pool)?;
    state.unsafe_in_capture()?;
    if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let device = state.ordinal(location.id)?;
    let (_, pool) = state.pool(pool)?;
    let granted = pool.access.get(&device).copied();
    let otherwise = if pool.reaches(device) {
        CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    } else {
        CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE
    };
    flags.set(granted.unwrap_or(otherwise))
}

/// All or nothing: the whole array is looked at before anything is granted.
pub(crate) fn set_access(state: &mut State, pool: CUmemoryPool, map: In<CUmemAccessDesc_v1>, count: usize) -> Answer {
    state.pool(pool)?;
    if count == 0 || map.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.unsafe_in_capture()?;
    let mut grants = Vec::new();
    for at in 0..count {
        let CUmemAccessDesc_v1 { location, flags } = map.at(at)?;
        if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE || !matches!(flags.0, 0 | 1 | 3) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let device = state.ordinal(location.id)?;
        let peers = state.options.peer_access;
        let (_, pool) = state.pool(pool)?;
        let on_device = pool.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let is_owner = on_device && pool.location == at_device(device);
        let read_write = flags == CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if is_owner && !read_write || on_device && !is_owner && !peers {
            return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        if !is_owner {
            grants.push((device, flags));
        }
    }
    let (_, pool) = state.pool(pool)?;
    pool.access.extend(grants);
    Ok(())
}
