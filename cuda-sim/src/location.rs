//! The default and the current pool of a device or another location.

use std::collections::BTreeMap;

use cuda_sys::*;

use crate::{
    args::{In, Out},
    attributes,
    handle::Kind,
    pool::{Owner, Pool, at_device},
    state::{Answer, State},
};

/// The pools of locations other than a device's own pinned memory: default and current, by location and kind.
pub(crate) type Locations = BTreeMap<(u32, i32, u32), (u32, u32)>;

impl State {
    fn pool_handle(&mut self, number: u32) -> CUmemoryPool {
        if let Some(pool) = self.pools.get_mut(number) {
            pool.touched = true;
        }
        self.handle(Kind::Pool, number)
    }

    /// Refuses a place for memory of that kind that there is none at, or that the device or the driver lacks.
    pub(crate) fn admit_location(&self, location: CUmemLocation, kind: CUmemAllocationType) -> Answer {
        use CUdevice_attribute as A;
        let (invalid, unsupported) = (CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let version = self.options.driver_version;
        // One that the driver is too old to have denies nothing.
        let denied = |attribute| attributes::value(&self.options, 0, attribute) == Some(0);
        let managed = match kind {
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED => false,
            CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED if version >= 13_000 => true,
            _ => return Err(invalid),
        };
        let lacks = match location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
                self.ordinal(location.id)?;
                None
            }
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST if version >= 13_000 => {
                Some(A::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED)
            }
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA if version >= 12_020 => {
                if !(0..NUMA_NODES).contains(&location.id) {
                    return Err(invalid);
                }
                Some(A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED)
            }
            CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE if managed => None,
            _ => return Err(invalid),
        };
        if lacks.is_some_and(denied) || managed && denied(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) {
            return Err(unsupported);
        }
        Ok(())
    }

    /// The default and the current pool of a location, made when first asked for.
    fn pools_at(&mut self, location: CUmemLocation, kind: CUmemAllocationType) -> Result<(u32, u32), CUresult> {
        self.pools_supported()?;
        let on_device = location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        if on_device && kind == PINNED {
            let device = self.device(self.ordinal(location.id)?)?;
            return Ok((device.default_pool, device.current_pool));
        }
        self.admit_location(location, kind)?;
        let location = plain(location);
        let key = (location.type_.0, location.id, kind.0);
        if let Some(pools) = self.locations.get(&key) {
            return Ok(*pools);
        }
        let pool = self.add_pool(Owner::Default, kind, location, 0, None);
        self.locations.insert(key, (pool, pool));
        Ok((pool, pool))
    }

    /// A pool is destroyed: where it was current, the default is again.
    pub(crate) fn leave_locations(&mut self, pool: u32) {
        for (default, current) in self.locations.values_mut() {
            if *current == pool {
                *current = *default;
            }
        }
    }

    /// Refuses a pool that cannot be a location's current one.
    fn current_candidate(
        &mut self,
        pool: CUmemoryPool,
        location: CUmemLocation,
        kind: CUmemAllocationType,
    ) -> Result<u32, CUresult> {
        let (number, found) = self.pool(pool)?;
        let location = plain(location);
        let fits =
            |pool: &Pool| pool.location == location && pool.kind == kind && !matches!(pool.owner, Owner::Imported(_));
        if fits(found) { Ok(number) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
    }
}

/// The location with no number where none is looked at.
pub(crate) const fn plain(location: CUmemLocation) -> CUmemLocation {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA => location,
        type_ => CUmemLocation { type_, id: 0 },
    }
}

/// How many NUMA nodes the host has.
const NUMA_NODES: i32 = 2;

const PINNED: CUmemAllocationType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;

pub(crate) fn device_default(state: &mut State, pool: Out<CUmemoryPool>, device: CUdevice) -> Answer {
    pool.required()?;
    let (default, _) = state.pools_at(at_device(state.ordinal(device)?), PINNED)?;
    pool.set(state.pool_handle(default))
}

pub(crate) fn device_current(state: &mut State, pool: Out<CUmemoryPool>, device: CUdevice) -> Answer {
    pool.required()?;
    let (_, current) = state.pools_at(at_device(state.ordinal(device)?), PINNED)?;
    pool.set(state.pool_handle(current))
}

pub(crate) fn set_device_current(state: &mut State, device: CUdevice, pool: CUmemoryPool) -> Answer {
    let ordinal = state.ordinal(device)?;
    let number = state.current_candidate(pool, at_device(ordinal), PINNED)?;
    state.unsafe_in_capture()?;
    state.device_mut(ordinal)?.current_pool = number;
    Ok(())
}

pub(crate) fn default_at(
    state: &mut State,
    pool: Out<CUmemoryPool>,
    location: In<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Answer {
    pool.required()?;
    let (default, _) = state.pools_at(location.get()?, kind)?;
    pool.set(state.pool_handle(default))
}

pub(crate) fn current_at(
    state: &mut State,
    pool: Out<CUmemoryPool>,
    location: In<CUmemLocation>,
    kind: CUmemAllocationType,
) -> Answer {
    pool.required()?;
    let (_, current) = state.pools_at(location.get()?, kind)?;
    pool.set(state.pool_handle(current))
}

pub(crate) fn set_current_at(
    state: &mut State,
    location: In<CUmemLocation>,
    kind: CUmemAllocationType,
    pool: CUmemoryPool,
) -> Answer {
    let location = plain(location.get()?);
    state.pools_at(location, kind)?;
    let number = state.current_candidate(pool, location, kind)?;
    state.unsafe_in_capture()?;
    if location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE && kind == PINNED {
        let ordinal = state.ordinal(location.id)?;
        state.device_mut(ordinal)?.current_pool = number;
    } else if let Some((_, current)) = state.locations.get_mut(&(location.type_.0, location.id, kind.0)) {
        *current = number;
    }
    Ok(())
}
