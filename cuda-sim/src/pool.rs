//! Pools, and stream-ordered allocation from them.

use std::collections::BTreeMap;

use cuda_sys::*;

use crate::{
    args::{In, Out},
    attributes,
    checker::{Misuse, Operation},
    handle::Kind,
    history::History,
    location::plain,
    managed::Placement,
    memory::{Allocation, Home, HostBlock},
    pool_space::{HostSpace, Space, Taker},
    state::{Answer, State},
    work::{QueueId, Work},
};

/// A pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) owner: Owner,
    pub(crate) kind: CUmemAllocationType,
    pub(crate) location: CUmemLocation,
    pub(crate) handle_types: u32,
    pub(crate) hw_decompress: bool,
    max: Option<u64>,
    /// The device whose memory it is, or that its managed memory is at home on.
    pub(crate) device: usize,
    /// Address space and mapped memory; none if the memory is the host's.
    pub(crate) space: Option<Space>,
    /// What it holds if the memory is the host's.
    pub(crate) host: HostSpace,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) threshold: u64,
    /// Follow event dependencies, opportunistic, internal dependencies.
    pub(crate) reuse: [bool; 3],
    /// Granted beyond the owner's own access, by device.
    pub(crate) access: BTreeMap<usize, CUmemAccess_flags>,
    /// Allocations whose free has not run.
    live: u32,
    destroyed: bool,
    /// A handle of it has been given out, without which none of its pointers is.
    pub(crate) exported: bool,
    /// Somebody has asked for it: its address space shows.
    pub(crate) touched: bool,
    pub(crate) serial: u64,
    /// Where its bytes begin, if other processes can have them too; and where they begin in the pool's own process.
    pub(crate) window: Option<(u64, u64)>,
}

/// A pool, among those of all simulators in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) simulator: u64,
    pub(crate) serial: u64,
}

/// Whose pool it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    /// The default pool of a device or location.
    Default,
    /// The simulator's own, behind `cuMemAlloc` and graphs.
    Hidden,
    /// Another one, imported.
    Imported(Origin),
}

impl Pool {
    pub(crate) const fn is_users(&self) -> bool {
        matches!(self.owner, Owner::User | Owner::Imported(_)) && !self.destroyed
    }

    /// The address space that this pool costs.
    pub(crate) fn visible_address_space(&self) -> u64 {
        if self.touched { self.space.as_ref().map_or(0, |space| space.bytes) } else { 0 }
    }

    /// Bytes reserved, and the most there were.
    pub(crate) fn reserved(&self) -> (u64, u64) {
        self.space
            .as_ref()
            .map_or((self.host.reserved, self.host.reserved_high), |space| (space.reserved, space.reserved_high))
    }

    /// Whether work on a device may use the memory.
    pub(crate) fn reaches(&self, device: usize) -> bool {
        let managed = self.kind == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED;
        let at_home = self.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE && self.device == device;
        managed
            || at_home
            || self.access.get(&device).is_some_and(|flags| *flags != CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE)
    }

    /// The most it can hold, as made; 0 is no maximum.
    pub(crate) fn max_size(&self) -> u64 {
        match (self.max, &self.space) {
            (Some(_), Some(space)) => space.limit,
            (max, _) => max.unwrap_or(0),
        }
    }

    pub(crate) fn reset_reserved_high(&mut self) {
        match &mut self.space {
            Some(space) => space.reserved_high = space.reserved,
            None => self.host.reserved_high = self.host.reserved,
        }
    }
}

/// A device's location.
pub(crate) const fn at_device(ordinal: usize) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: ordinal as i32 }
}

impl State {
    pub(crate) fn add_device_pool(&mut self, ordinal: usize, default: bool) -> u32 {
        let owner = if default { Owner::Default } else { Owner::Hidden };
        let kind = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        self.add_pool(owner, kind, at_device(ordinal), 0, None)
    }

    pub(crate) fn add_pool(
        &mut self,
        owner: Owner,
        kind: CUmemAllocationType,
        location: CUmemLocation,
        handle_types: u32,
        max: Option<u64>,
    ) -> u32 {
        let on_device = location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let in_device_memory = on_device && kind == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        let memory = self.options.device_memory;
        let pool = Pool {
            owner,
            kind,
            location,
            handle_types,
            hw_decompress: false,
            max,
            device: if on_device { usize::try_from(location.id).unwrap_or(0) } else { 0 },
            space: in_device_memory.then(|| Space::new(&mut self.addresses, max, memory)),
            host: HostSpace::default(),
            used: 0,
            used_high: 0,
            threshold: 0,
            reuse: [true; 3],
            access: BTreeMap::new(),
            live: 0,
            destroyed: false,
            touched: matches!(owner, Owner::User | Owner::Imported(_)),
            serial: self.serial(),
            exported: false,
            window: None,
        };
        self.pools.insert(pool)
    }

    /// Refuses everything about pools on a device that has none.
    pub(crate) const fn pools_supported(&self) -> Answer {
        if self.options.pools_supported { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_SUPPORTED) }
    }

    /// The pool that a handle names.
    pub(crate) fn pool(&mut self, handle: CUmemoryPool) -> Result<(u32, &mut Pool), CUresult> {
        self.pools_supported()?;
        let number = self.number(Kind::Pool, handle);
        if number.and_then(|number| self.pools.get(number)).is_none_or(|pool| pool.destroyed) {
            self.found(Misuse::UnknownHandle, handle.addr() as u64, 0, None);
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        number.and_then(|number| Some((number, self.pools.get_mut(number)?))).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// Takes memory for an allocation of that many bytes: its address, and how much it takes.
    pub(crate) fn take_from(&mut self, pool: u32, bytes: u64, queue: Option<QueueId>) -> Result<(u64, u64), CUresult> {
        let out_of_memory = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let span = Space::span(bytes).ok_or(out_of_memory)?;
        if let Some(queue) = queue {
            self.catch_up(queue);
        }
        let Some(found) = self.pools.get_mut(pool) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
        let device = self.devices.get_mut(found.device).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        let Some(space) = &mut found.space else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
        let [follow_events, _, internal_dependencies] = found.reuse;
        let past = queue.filter(|_| follow_events).and_then(|queue| self.queues.get(queue)).map(|queue| &queue.past);
        let taker = Taker { queue, past };
        if let Some(address) = space.take(span, taker, &self.queues) {
            return Ok((address, span));
        }
        let room = self.options.device_memory.saturating_sub(device.reserved);
        if let Some(grown) = space.grow(span, taker, &self.queues, room) {
            device.reserved += grown;
            let address = space.take(span, taker, &self.queues).ok_or(out_of_memory)?;
            return Ok((address, span));
        }
        // Memory freed on another stream can be had by waiting for it in stream order.
        if let (Some(queue), true) = (queue, internal_dependencies)
            && let Some((address, after)) = space.take_after(span)
        {
            if let Some(after) = after {
                self.submit(queue, Work::Wait(after))?;
            }
            return Ok((address, span));
        }
        Err(out_of_memory)
    }

    /// Enters an allocation in the books.
    pub(crate) fn add_allocation(
        &mut self,
        pool: u32,
        home: Home,
        address: u64,
        bytes: u64,
        span: u64,
        made: Operation,
    ) -> u32 {
        let serial = self.serial();
        let mut device = 0;
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.used += bytes;
            pool.used_high = pool.used_high.max(pool.used);
            pool.live += u32::from(matches!(home, Home::Pool(_)));
            device = pool.device;
        }
        self.memory.insert(Allocation {
            address,
            bytes,
            span,
            home,
            device,
            block: None,
            physical: address,
            original: None,
            serial,
            made,
            freed: None,
            at: None,
            history: History::new(),
            ready: false,
            gone: false,
            uses: 0,
            placement: Placement::default(),
        })
    }

    /// Takes host memory for an allocation of a pool that has no device memory.
    fn take_host(&mut self, pool: u32, bytes: u64, queue: QueueId) -> Result<HostBlock, CUresult> {
        let span = Space::span(bytes).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        self.catch_up(queue);
        let Some(found) = self.pools.get_mut(pool) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
        let limit = found.max.unwrap_or(self.options.device_memory);
        let past = Some(queue).filter(|_| found.reuse[0]).and_then(|queue| self.queues.get(queue));
        let taker = Taker { queue: Some(queue), past: past.map(|queue| &queue.past) };
        if !found.host.take(span, taker, &self.queues, limit) {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        HostBlock::new(span).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    }

    fn allocate_in_order(&mut self, pool: u32, bytes: u64, queue: QueueId) -> Result<u64, CUresult> {
        let made = Operation { id: self.operations + 1, entry: self.entry, stream: None };
        let stream = self.queues.get(queue).map(|queue| queue.stream_id);
        let made = Operation { stream, ..made };
        let in_device_memory = self.pools.get(pool).is_some_and(|pool| pool.space.is_some());
        let number = if in_device_memory {
            let (address, span) = self.take_from(pool, bytes, Some(queue))?;
            self.add_allocation(pool, Home::Pool(pool), address, bytes, span, made)
        } else {
            let block = self.take_host(pool, bytes, queue)?;
            let address = block.expose();
            let span = Space::span(bytes).unwrap_or(bytes);
            let number = self.add_allocation(pool, Home::Pool(pool), address, bytes, span, made);
            if let Some(allocation) = self.memory.all.get_mut(number) {
                allocation.block = Some(block);
            }
            number
        };
        self.submit_in_order(queue, Work::Allocate(number))?;
        let allocation = self.memory.all.get_mut(number).ok_or(CUresult::CUDA_ERROR_UNKNOWN)?;
        allocation.made.id = self.operations;
        // The host may use such memory at once.
        allocation.ready |= allocation.block.is_some();
        Ok(allocation.address)
    }

    /// A pointer has been imported into a pool.
    pub(crate) fn pool_gained_allocation(&mut self, number: u32) {
        if let Some(pool) = self.pools.get_mut(number) {
            pool.live += 1;
        }
    }

    /// An allocation's free has run: a destroyed pool may be able to go.
    pub(crate) fn pool_lost_allocation(&mut self, number: u32) {
        if let Some(pool) = self.pools.get_mut(number) {
            pool.live = pool.live.saturating_sub(1);
            self.end_pool(number);
        }
    }

    /// Removes a destroyed pool once nothing of it is left.
    fn end_pool(&mut self, number: u32) {
        let Some(pool) = self.pools.get_mut(number) else { return };
        if !pool.destroyed || pool.live > 0 {
            return;
        }
        let Some(pool) = self.pools.remove(number) else { return };
        if self.options.stale_access && !pool.access.is_empty() {
            self.stale_access.insert(number, pool.access);
        }
        if let Some((base, _)) = pool.window {
            self.backing.close_window(base);
        }
        if let Some(mut space) = pool.space {
            let unmapped = space.clear();
            if let Some(device) = self.devices.get_mut(pool.device) {
                device.reserved = device.reserved.saturating_sub(unmapped);
            }
            space.end(&mut self.addresses);
        }
    }

    /// Pools that hold more than their threshold give back what is idle: what every synchronisation does.
    pub(crate) fn give_back(&mut self) {
        for (_, pool) in self.pools.iter_mut() {
            pool.host.shrink(pool.threshold, &self.queues);
            if let Some(space) = &mut pool.space
                && space.reserved > pool.threshold
            {
                let unmapped = space.shrink(pool.threshold, &self.queues);
                if let Some(device) = self.devices.get_mut(pool.device) {
                    device.reserved = device.reserved.saturating_sub(unmapped);
                }
            }
        }
    }

    /// A reset takes the memory out of a device's pools; the pools stay.
    pub(crate) fn abandon_pools(&mut self, device: usize) {
        let mut ended = Vec::new();
        for (number, pool) in self.pools.iter_mut().filter(|(_, pool)| pool.device == device) {
            if let Some(space) = &mut pool.space {
                space.clear();
            }
            (pool.used, pool.live, pool.host) = (0, 0, HostSpace::default());
            if pool.destroyed {
                ended.push(number);
            }
        }
        if let Some(device) = self.devices.get_mut(device) {
            device.reserved = 0;
        }
        for number in ended {
            self.end_pool(number);
        }
    }
}

impl State {
    /// Refuses what does not go together, or what the device or the driver lacks.
    fn admit_properties(&self, props: &CUmemPoolProps_v1) -> Answer {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let types = props.handleTypes.0;
        let known = if self.options.driver_version < 12_030 { 1 } else { 9 };
        if types & !known != 0 || props.usage & !2 != 0 {
            return Err(invalid);
        }
        let managed = props.allocType == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED;
        let on_host = props.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST;
        if types != 0 && (managed || on_host) || managed && (props.maxSize != 0 || props.usage != 0) {
            return Err(invalid);
        }
        // An attribute that the driver is too old to have denies nothing.
        let says = |attribute| attributes::value(&self.options, 0, attribute).map(i32::cast_unsigned);
        let supported = says(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES).unwrap_or(known);
        let decompresses = says(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK) != Some(0);
        if types & !supported != 0 || props.usage != 0 && !decompresses {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        Ok(())
    }
}

pub(crate) fn create(state: &mut State, pool: Out<CUmemoryPool>, props: In<CUmemPoolProps_v1>) -> Answer {
    pool.required()?;
    let props = props.get()?;
    state.pools_supported()?;
    let version = state.options.driver_version;
    // What later versions gave a meaning was reserved before.
    let reserved = props.maxSize != 0 && version < 12_020 || props.usage != 0 && version < 12_060;
    if reserved || props.reserved.iter().any(|byte| *byte != 0) {
        state.found(Misuse::ReservedBytes, 0, 0, None);
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.admit_location(props.location, props.allocType)?;
    state.admit_properties(&props)?;
    let max = (props.maxSize != 0).then_some(props.maxSize as u64);
    if max.is_some_and(|max| max > state.options.device_memory.saturating_mul(2)) {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let number = state.add_pool(Owner::User, props.allocType, plain(props.location), props.handleTypes.0, max);
    let stale = state.stale_access.remove(&number);
    if let Some(pool) = state.pools.get_mut(number) {
        pool.hw_decompress = props.usage != 0;
        pool.access = stale.unwrap_or_default();
    }
    if let Err(code) = state.share_pool(number) {
        state.pools.remove(number);
        return Err(code);
    }
    pool.set(state.handle(Kind::Pool, number))
}

pub(crate) fn destroy(state: &mut State, handle: CUmemoryPool) -> Answer {
    state.pool(handle)?;
    state.unsafe_in_capture()?;
    let (number, pool) = state.pool(handle)?;
    if pool.owner == Owner::Default {
        state.found(Misuse::DefaultPoolDestroyed, handle.addr() as u64, 0, None);
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    pool.destroyed = true;
    if pool.live > 0 {
        state.found(Misuse::PoolDestroyedInUse, 0, 0, None);
    }
    for device in &mut state.devices {
        if device.current_pool == number {
            device.current_pool = device.default_pool;
        }
    }
    state.leave_locations(number);
    state.end_pool(number);
    Ok(())
}

pub(crate) fn allocate(
    state: &mut State,
    pointer: Out<CUdeviceptr_v2>,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> Answer {
    pointer.required()?;
    let queue = state.queue_of(stream)?;
    let (number, _) = state.pool(pool)?;
    allocate_on(state, &pointer, bytes, number, queue)
}

pub(crate) fn allocate_from_current(
    state: &mut State,
    pointer: Out<CUdeviceptr_v2>,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    pointer.required()?;
    let queue = state.queue_of(stream)?;
    state.pools_supported()?;
    let device = state.queue_context(queue)?.device;
    let number = state.device(device)?.current_pool;
    allocate_on(state, &pointer, bytes, number, queue)
}

fn allocate_on(state: &mut State, out: &Out<CUdeviceptr_v2>, bytes: usize, number: u32, queue: QueueId) -> Answer {
    let Some(pool) = state.pools.get_mut(number) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    if matches!(pool.owner, Owner::Imported(_)) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    pool.touched = true;
    let shareable = pool.handle_types != 0;
    if bytes == 0 {
        return out.set(0);
    }
    state.breaks_captures_implicitly(queue)?;
    if state.captures_on(queue)?.is_some() {
        if shareable {
            state.spoil_capture_of(queue);
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        return out.set(state.allocate_in_graph(bytes as u64, queue)?);
    }
    // It may have to ask the system for memory.
    state.unsafe_in_capture()?;
    out.set(state.allocate_in_order(number, bytes as u64, queue)?)
}
