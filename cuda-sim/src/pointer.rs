//! What the driver says about a pointer.

use core::ffi::{c_int, c_uint, c_void};

use cuda_sys::*;

use crate::{
    args::{Arg, In, Out},
    handle::Kind,
    memory::Home,
    state::{Answer, State},
};

/// What there is to say.
struct Described {
    memory: CUmemorytype_enum,
    /// None for memory that belongs to no context, as pool memory does.
    context: Option<usize>,
    device: usize,
    start: u64,
    bytes: u64,
    serial: u64,
    managed: bool,
    on_host: bool,
    pool: Option<u32>,
    handle_types: u32,
}

impl State {
    fn describe(&self, pointer: u64) -> Option<Described> {
        if let Some((_, start)) = self.host.pinned(pointer, 1) {
            let (bytes, _) = self.host.range(start)?;
            return Some(Described {
                memory: CUmemorytype_enum::CU_MEMORYTYPE_HOST,
                context: Some(0),
                device: 0,
                start,
                bytes,
                serial: start,
                managed: false,
                on_host: true,
                pool: None,
                handle_types: 0,
            });
        }
        let (_, allocation) = self.memory.holding(pointer)?;
        let pool = match allocation.home {
            Home::Pool(pool) | Home::Imported(pool) => self.pools.get(pool).map(|found| (pool, found)),
            Home::Linear | Home::Managed | Home::Graph => None,
        };
        let managed = allocation.home == Home::Managed
            || pool.is_some_and(|(_, pool)| pool.kind == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED);
        let of_host = pool
            .is_some_and(|(_, pool)| pool.location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE && !managed);
        Some(Described {
            memory: if of_host {
                CUmemorytype_enum::CU_MEMORYTYPE_HOST
            } else {
                CUmemorytype_enum::CU_MEMORYTYPE_DEVICE
            },
            context: if pool.is_some() { None } else { Some(allocation.device) },
            device: allocation.device,
            start: allocation.address,
            bytes: allocation.bytes,
            serial: allocation.serial,
            managed,
            on_host: allocation.block.is_some(),
            pool: pool.map(|(number, _)| number),
            handle_types: pool.map_or(0, |(_, pool)| pool.handle_types),
        })
    }
}

pub(crate) fn address_range(
    state: &mut State,
    base: Out<CUdeviceptr_v2>,
    bytes: Out<usize>,
    pointer: CUdeviceptr_v2,
) -> Answer {
    let described = state.describe(pointer).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
    base.set_if_wanted(described.start);
    bytes.set_if_wanted(described.bytes as usize);
    Ok(())
}

pub(crate) fn attribute(
    state: &mut State,
    data: Out<c_void>,
    attribute: CUpointer_attribute,
    pointer: CUdeviceptr_v2,
) -> Answer {
    data.required()?;
    let described = state.describe(pointer).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    write(state, &data, attribute, pointer, &described)
}

/// The one call that answers success for a pointer that the driver does not know: the values say so.
pub(crate) fn attributes(
    state: &mut State,
    count: c_uint,
    attributes: In<CUpointer_attribute>,
    data: In<*mut c_void>,
    pointer: CUdeviceptr_v2,
) -> Answer {
    let described = state.describe(pointer);
    for at in 0..count as usize {
        // SAFETY: the array holds one out-parameter for each attribute.
        let out: Out<c_void> = unsafe { Arg::take(data.at(at)?) };
        out.required()?;
        match &described {
            Some(described) => write(state, &out, attributes.at(at)?, pointer, described)?,
            None => write_unknown(&out, attributes.at(at)?)?,
        }
    }
    Ok(())
}

fn write(state: &State, out: &Out<c_void>, attribute: CUpointer_attribute, pointer: u64, known: &Described) -> Answer {
    use CUpointer_attribute as A;
    let yes = |value: bool| c_uint::from(value);
    match attribute {
        A::CU_POINTER_ATTRIBUTE_CONTEXT => out
            .cast::<CUcontext>()
            .set(known.context.map_or(core::ptr::null_mut(), |device| state.context_handle(device))),
        A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => out.cast().set(known.memory),
        A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => out.cast::<CUdeviceptr_v2>().set(pointer),
        A::CU_POINTER_ATTRIBUTE_HOST_POINTER if known.on_host => out.cast::<u64>().set(pointer),
        A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => out.cast().set(yes(false)),
        A::CU_POINTER_ATTRIBUTE_BUFFER_ID => out.cast::<u64>().set(known.serial),
        A::CU_POINTER_ATTRIBUTE_IS_MANAGED => out.cast().set(yes(known.managed)),
        A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => out.cast::<c_int>().set(known.device as c_int),
        A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => {
            out.cast().set(yes(known.pool.is_none() && !known.managed && !known.on_host))
        }
        A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR | A::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => {
            out.cast::<CUdeviceptr_v2>().set(known.start)
        }
        A::CU_POINTER_ATTRIBUTE_RANGE_SIZE | A::CU_POINTER_ATTRIBUTE_MAPPING_SIZE => {
            out.cast::<usize>().set(known.bytes as usize)
        }
        A::CU_POINTER_ATTRIBUTE_MAPPED => out.cast().set(yes(true)),
        A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => out.cast::<u64>().set(known.handle_types.into()),
        A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE => out.cast().set(yes(!known.on_host)),
        A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => out.cast().set(CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
        A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => out
            .cast::<CUmemoryPool>()
            .set(known.pool.map_or(core::ptr::null_mut(), |pool| state.handle(Kind::Pool, pool))),
        A::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => out.cast::<u64>().set(known.serial),
        A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => out.cast().set(yes(false)),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

fn write_unknown(out: &Out<c_void>, attribute: CUpointer_attribute) -> Answer {
    use CUpointer_attribute as A;
    match attribute {
        A::CU_POINTER_ATTRIBUTE_CONTEXT
        | A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER
        | A::CU_POINTER_ATTRIBUTE_HOST_POINTER
        | A::CU_POINTER_ATTRIBUTE_BUFFER_ID
        | A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
        | A::CU_POINTER_ATTRIBUTE_RANGE_SIZE
        | A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES
        | A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
        | A::CU_POINTER_ATTRIBUTE_MAPPING_SIZE
        | A::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR
        | A::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => out.cast::<u64>().set(0),
        A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => out.cast::<c_int>().set(-2),
        CUpointer_attribute(1..=21) => out.cast::<c_uint>().set(0),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}
