//! Managed memory: host memory of the simulator's, which devices use too. It is never moved.

use core::{
    ffi::{c_int, c_uint, c_void},
    ops::RangeInclusive,
};
use std::collections::{BTreeMap, BTreeSet};

use cuda_sys::*;

use crate::{
    args::Out,
    attributes,
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
    let supported = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    if attributes::value(&state.options, context.device, supported) == Some(0) {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
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
    /// The allocation that a range lies in; refuses what is not managed memory.
    fn managed_range(&mut self, pointer: u64, bytes: usize) -> Result<u32, CUresult> {
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
        if managed && bytes > 0 { Ok(number) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
    }

    /// Refuses a place where managed memory cannot be kept: a device has to share it with the host.
    fn location(&self, location: CUmemLocation) -> Answer {
        match location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
                let ordinal = self.ordinal(location.id)?;
                let shares = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
                match attributes::value(&self.options, ordinal, shares) {
                    Some(0) | None => Err(CUresult::CUDA_ERROR_INVALID_DEVICE),
                    Some(_) => Ok(()),
                }
            }
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// Changes what is known of the pages of a range.
    fn place_pages(&mut self, number: u32, pointer: u64, bytes: usize, change: impl Fn(&mut Page)) {
        if let Some(allocation) = self.memory.all.get_mut(number) {
            for page in pages(pointer, bytes) {
                change(allocation.placement.0.entry(page).or_default());
            }
        }
    }

    /// What all pages of a range have in common.
    fn common<V: PartialEq>(&self, number: u32, pointer: u64, bytes: usize, of: impl Fn(&Page) -> V) -> Option<V> {
        let allocation = self.memory.all.get(number)?;
        let untouched = Page::default();
        let mut values = pages(pointer, bytes).map(|page| of(allocation.placement.0.get(&page).unwrap_or(&untouched)));
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    }

    /// Who was said to use all pages of a range.
    fn used_by(&self, number: u32, pointer: u64, bytes: usize) -> BTreeSet<CUdevice> {
        let Some(allocation) = self.memory.all.get(number) else { return BTreeSet::new() };
        let of = |page| allocation.placement.0.get(&page).map(|page| page.accessed_by.clone()).unwrap_or_default();
        pages(pointer, bytes).map(of).reduce(|one, other| &one & &other).unwrap_or_default()
    }
}

/// What was said about an allocation's pages.
#[derive(Debug, Default)]
pub(crate) struct Placement(BTreeMap<u64, Page>);

#[derive(Clone, Debug, Default)]
struct Page {
    read_mostly: bool,
    preferred: Option<CUmemLocation>,
    prefetched: Option<CUmemLocation>,
    /// By number: devices and `HOST`.
    accessed_by: BTreeSet<CUdevice>,
}

/// A page of the host's.
const PAGE: u64 = 4096;

/// The pages that a range touches.
fn pages(pointer: u64, bytes: usize) -> RangeInclusive<u64> {
    pointer / PAGE..=(pointer + (bytes as u64).max(1) - 1) / PAGE
}

/// `CU_DEVICE_CPU`.
const HOST: CUdevice = -1;
/// `CU_DEVICE_INVALID`.
const NO_DEVICE: CUdevice = -2;

const fn location_of(device: CUdevice) -> CUmemLocation {
    let type_ = if device == HOST {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
    } else {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
    };
    CUmemLocation { type_, id: device }
}

/// The device number that stands for a location.
fn number_of(location: Option<CUmemLocation>) -> CUdevice {
    match location {
        Some(location) if location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => location.id,
        Some(location) if location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST => HOST,
        _ => NO_DEVICE,
    }
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
    let allocation = state.managed_range(pointer, bytes)?;
    if flags != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // No node of a graph does it.
    state.waits_in_capture(queue)?;
    state.submit(queue, Work::Prefetch { address: pointer, allocation, bytes: bytes as u64 })?;
    state.place_pages(allocation, pointer, bytes, |page| page.prefetched = Some(location));
    Ok(())
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
    use CUmem_advise as A;
    let allocation = state.managed_range(pointer, bytes)?;
    // Drivers take advice about memory of no pool only.
    if state.memory.all.get(allocation).is_some_and(|found| matches!(found.home, Home::Pool(_))) {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let by = number_of(Some(location));
    // The others do not look at the location.
    if matches!(
        advice,
        A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION | A::CU_MEM_ADVISE_SET_ACCESSED_BY | A::CU_MEM_ADVISE_UNSET_ACCESSED_BY
    ) {
        state.location(location)?;
    }
    // Who uses it is a device, or the host as a whole.
    let accessed_by = matches!(advice, A::CU_MEM_ADVISE_SET_ACCESSED_BY | A::CU_MEM_ADVISE_UNSET_ACCESSED_BY);
    if accessed_by && by == NO_DEVICE {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.place_pages(allocation, pointer, bytes, |page| match advice {
        A::CU_MEM_ADVISE_SET_READ_MOSTLY => page.read_mostly = true,
        A::CU_MEM_ADVISE_UNSET_READ_MOSTLY => page.read_mostly = false,
        A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => page.preferred = Some(location),
        A::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => page.preferred = None,
        A::CU_MEM_ADVISE_SET_ACCESSED_BY => drop(page.accessed_by.insert(by)),
        A::CU_MEM_ADVISE_UNSET_ACCESSED_BY => drop(page.accessed_by.remove(&by)),
        _ => {}
    });
    if matches!(advice.0, 1..=6) { Ok(()) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
}

pub(crate) fn range_attribute(
    state: &mut State,
    data: Out<c_void>,
    data_bytes: usize,
    attribute: CUmem_range_attribute,
    pointer: CUdeviceptr_v2,
    bytes: usize,
) -> Answer {
    use CUmem_range_attribute as A;
    data.required()?;
    let number = state.managed_range(pointer, bytes)?;
    let all = |of: fn(&Page) -> Option<CUmemLocation>| state.common(number, pointer, bytes, of).flatten();
    let preferred = || all(|page| page.preferred);
    let prefetched = || all(|page| page.prefetched);
    let type_of = |location: Option<CUmemLocation>| {
        location.map_or(CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID, |location| location.type_).0.cast_signed()
    };
    let id_of = |location: Option<CUmemLocation>| location.map_or(NO_DEVICE, |location| location.id);
    let value = match attribute {
        A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY if data_bytes >= 4 && data_bytes.is_multiple_of(4) => {
            let mut common = state.used_by(number, pointer, bytes);
            let mut next = || common.pop_first().unwrap_or(NO_DEVICE);
            return data.cast::<c_int>().set_all((0..data_bytes / 4).map(|_| next()));
        }
        _ if data_bytes != 4 => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => {
            c_int::from(state.common(number, pointer, bytes, |page| page.read_mostly) == Some(true))
        }
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => number_of(preferred()),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => number_of(prefetched()),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => type_of(preferred()),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID => id_of(preferred()),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => type_of(prefetched()),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => id_of(prefetched()),
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    data.cast::<c_int>().set(value)
}
