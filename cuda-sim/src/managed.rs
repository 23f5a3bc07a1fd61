//! Managed memory: host memory of the simulator's, which devices use too. It is never moved.

use core::ffi::{c_int, c_uint, c_void};

use cuda_sys::*;

use crate::{
    args::Out,
    memory::{Home, HostBlock},
    pool_space::Space,
    state::{Answer, State},
    work::Work,
};

pub(crate) fn allocate(state: &mut State, pointer: Out<CUdeviceptr_v2>, bytes: usize, flags: c_uint) -> Answer {
    pointer.required()?;
    let context = state.current_context()?;
    if bytes == 0 || !matches!(flags, 1 | 2) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.unsafe_in_capture()?;
    let out_of_memory = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let bytes = bytes as u64;
    let span = Space::span(bytes).ok_or(out_of_memory)?;
    if span > state.options.device_memory.saturating_mul(2) {
        return Err(out_of_memory);
    }
    let block = HostBlock::new(span).ok_or(out_of_memory)?;
    let address = block.expose();
    let made = state.operation();
    let pool = state.device(context.device)?.linear_pool;
    let number = state.add_allocation(pool, Home::Managed, address, bytes, span, made);
    if let Some(allocation) = state.memory.all.get_mut(number) {
        (allocation.block, allocation.ready) = (Some(block), true);
    }
    pointer.set(address)
}

impl State {
    /// Refuses a range that is not managed memory.
    fn managed_range(&mut self, pointer: u64, bytes: usize) -> Answer {
        let number = self.device_range(pointer, bytes as u64)?;
        let allocation = self.memory.all.get(number);
        let managed = allocation.is_some_and(|allocation| match allocation.home {
            Home::Managed => true,
            Home::Pool(pool) => self
                .pools
                .get(pool)
                .is_some_and(|pool| pool.kind == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED),
            Home::Linear | Home::Graph | Home::Imported(_) => false,
        });
        if managed && bytes > 0 { Ok(()) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
    }

    fn location(&self, location: CUmemLocation) -> Answer {
        match location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => self.ordinal(location.id).map(drop),
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// `CU_DEVICE_CPU`.
const HOST: CUdevice = -1;

const fn location_of(device: CUdevice) -> CUmemLocation {
    let type_ = if device == HOST {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
    } else {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
    };
    CUmemLocation { type_, id: device }
}

pub(crate) fn prefetch(
    state: &mut State,
    pointer: CUdeviceptr_v2,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> Answer {
    prefetch_to(state, pointer, bytes, location_of(device), 0, stream)
}

pub(crate) fn prefetch_to(
    state: &mut State,
    pointer: CUdeviceptr_v2,
    bytes: usize,
    location: CUmemLocation,
    flags: c_uint,
    stream: CUstream,
) -> Answer {
    let queue = state.queue_of(stream)?;
    state.location(location)?;
    state.managed_range(pointer, bytes)?;
    if flags != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.submit(queue, Work::Nothing).map(drop)
}

pub(crate) fn advise(
    state: &mut State,
    pointer: CUdeviceptr_v2,
    bytes: usize,
    advice: CUmem_advise,
    device: CUdevice,
) -> Answer {
    advise_for(state, pointer, bytes, advice, location_of(device))
}

pub(crate) fn advise_for(
    state: &mut State,
    pointer: CUdeviceptr_v2,
    bytes: usize,
    advice: CUmem_advise,
    location: CUmemLocation,
) -> Answer {
    state.managed_range(pointer, bytes)?;
    match advice.0 {
        1 | 2 | 4 => Ok(()),
        3 | 5 | 6 => state.location(location),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// Advice is not kept: a range is not read-mostly, and has no preferred or last location.
pub(crate) fn range_attribute(
    state: &mut State,
    data: Out<c_void>,
    data_bytes: usize,
    attribute: CUmem_range_attribute,
    pointer: CUdeviceptr_v2,
    bytes: usize,
) -> Answer {
    data.required()?;
    state.managed_range(pointer, bytes)?;
    let count = data_bytes / 4;
    let invalid_device: c_int = -2;
    match attribute {
        CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY if data_bytes == 4 => data.cast::<c_int>().set(0),
        CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY if count > 0 => {
            data.cast::<c_int>().set_all(core::iter::repeat_n(invalid_device, count))
        }
        CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE
        | CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE
            if data_bytes == 4 =>
        {
            data.cast::<c_int>().set(0)
        }
        CUmem_range_attribute(2 | 4 | 6 | 8) if data_bytes == 4 => data.cast::<c_int>().set(invalid_device),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}
