//! Allocations of device and managed memory, by address, and `cuMemAlloc`.

use std::{
    alloc::{Layout, alloc, dealloc},
    collections::BTreeMap,
};

use cuda_sys::*;

use crate::{
    args::{HostPointer, Out},
    backing::POISON,
    checker::{Misuse, Operation},
    history::History,
    managed::Placement,
    state::{Answer, State},
    table::Table,
    work::Point,
};

/// Device addresses begin here: outside every address space that a host has.
pub(crate) const DEVICE_BASE: u64 = 0x0dd0_0000_0000_0000;

/// Allocations lie this far apart.
pub(crate) const STEP: u64 = 512;

/// Where an allocation came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Pool(u32),
    Linear,
    Managed,
    /// Part of a graph that was captured.
    Graph,
    /// Another name for an exported allocation.
    Imported(u32),
}

/// Host memory of the simulator's.
#[derive(Debug)]
pub(crate) struct HostBlock {
    pub(crate) pointer: HostPointer,
    layout: Layout,
}

impl HostBlock {
    /// Poisoned memory, aligned to a page.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        let layout = Layout::from_size_align(usize::try_from(bytes).ok()?.max(1), 4096).ok()?;
        // SAFETY: the layout is not empty.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() {
            return None;
        }
        // SAFETY: just allocated with this size.
        unsafe { pointer.write_bytes(POISON, layout.size()) };
        Some(Self { pointer: HostPointer(pointer), layout })
    }

    /// Poisons it anew.
    pub(crate) fn poison(&self) {
        // SAFETY: allocated with this size, until it is dropped.
        unsafe { self.pointer.0.write_bytes(POISON, self.layout.size()) };
    }

    /// The address, for calls that take the pointer back as a number.
    pub(crate) fn expose(&self) -> u64 {
        self.pointer.0.expose_provenance() as u64
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { dealloc(self.pointer.0, self.layout) }
    }
}

/// One allocation, from the call that made it until its free has run and nothing pending uses it.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) address: u64,
    /// As asked for.
    pub(crate) bytes: u64,
    /// As taken from the pool.
    pub(crate) span: u64,
    pub(crate) home: Home,
    pub(crate) device: usize,
    /// Where the bytes are, if the host can reach them.
    pub(crate) block: Option<HostBlock>,
    /// Where the bytes are in device memory; not the address for an imported pointer.
    pub(crate) physical: u64,
    /// The allocation of this simulator that an imported pointer names, and its serial number.
    pub(crate) original: Option<(u32, u64)>,
    pub(crate) serial: u64,
    pub(crate) made: Operation,
    pub(crate) freed: Option<Operation>,
    /// Where its allocation has its place in stream order, once it has run; none if it belongs to no stream.
    pub(crate) at: Option<Point>,
    /// The uses that have run.
    pub(crate) history: History,
    /// Its allocation has run.
    pub(crate) ready: bool,
    /// Its free has run.
    pub(crate) gone: bool,
    /// Pending operations that use it.
    pub(crate) uses: u32,
    /// Where its pages were told to be, if it is managed.
    pub(crate) placement: Placement,
}

/// All allocations.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) all: Table<Allocation>,
    /// Those not freed, by address.
    by_address: BTreeMap<u64, u32>,
    /// What was freed last at an address, for reports.
    freed: BTreeMap<u64, (u64, Operation)>,
    /// Host memory of a context that was reset: its users may still look at it.
    graveyard: Vec<HostBlock>,
}

/// Frees remembered for reports.
const REMEMBERED: usize = 4096;

impl Memory {
    pub(crate) const fn new() -> Self {
        Self { all: Table::new(), by_address: BTreeMap::new(), freed: BTreeMap::new(), graveyard: Vec::new() }
    }

    /// The allocations that have not been freed.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Allocation> {
        self.by_address.values().filter_map(|number| self.all.get(*number))
    }

    /// The allocation, not freed, that the address lies in.
    pub(crate) fn holding(&self, address: u64) -> Option<(u32, &Allocation)> {
        let (_, number) = self.by_address.range(..=address).next_back()?;
        let allocation = self.all.get(*number)?;
        let inside = address - allocation.address < allocation.bytes.max(1);
        inside.then_some((*number, allocation))
    }

    /// Whether the bytes lie in that allocation.
    pub(crate) fn contains(&self, number: u32, address: u64, bytes: u64) -> bool {
        self.all.get(number).is_some_and(|allocation| {
            let offset = address.wrapping_sub(allocation.address);
            offset <= allocation.bytes && bytes <= allocation.bytes - offset
        })
    }

    /// The allocation, not freed, that starts at the address.
    pub(crate) fn starting(&self, address: u64) -> Option<u32> {
        self.by_address.get(&address).copied()
    }

    /// Adds an allocation; it can be named from now on.
    pub(crate) fn insert(&mut self, allocation: Allocation) -> u32 {
        let address = allocation.address;
        let number = self.all.insert(allocation);
        self.by_address.insert(address, number);
        number
    }

    /// An allocation of a graph can be named again: the graph is launched anew. Launches before may still have to run, so
    /// it is only there again when its allocation runs.
    pub(crate) fn revive(&mut self, number: u32) {
        if let Some(allocation) = self.all.get_mut(number) {
            allocation.freed = None;
            self.by_address.insert(allocation.address, number);
        }
    }

    /// The allocation can no longer be named.
    pub(crate) fn forget(&mut self, number: u32, by: Operation) {
        let Some(allocation) = self.all.get_mut(number) else { return };
        allocation.freed = Some(by);
        self.by_address.remove(&allocation.address);
        if self.freed.len() >= REMEMBERED {
            self.freed.clear();
        }
        self.freed.insert(allocation.address, (allocation.span, by));
    }

    /// The last free of the memory at that address.
    pub(crate) fn freed_at(&self, address: u64) -> Option<(u64, Operation)> {
        let (start, (span, by)) = self.freed.range(..=address).next_back()?;
        (address - start < *span).then_some((*start, *by))
    }
}

impl State {
    /// The allocation that an operation's range lies in. The driver refuses ranges that lie in none.
    pub(crate) fn device_range(&mut self, address: u64, bytes: u64) -> Result<u32, CUresult> {
        let (misuse, earlier) = match self.memory.holding(address) {
            Some((number, allocation)) if bytes <= allocation.bytes - (address - allocation.address) => {
                return Ok(number);
            }
            Some((_, allocation)) => (Misuse::OutOfBounds, Some(allocation.made)),
            None => match self.memory.freed_at(address) {
                Some((_, by)) => (Misuse::UseAfterFree, Some(by)),
                None => (Misuse::UnknownAddress, None),
            },
        };
        self.found(misuse, address, bytes, earlier);
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    pub(crate) fn count_use(&mut self, number: u32, more: bool) {
        if let Some(allocation) = self.memory.all.get_mut(number) {
            allocation.uses = if more { allocation.uses + 1 } else { allocation.uses.saturating_sub(1) };
            if !more {
                self.bury(number);
            }
        }
    }

    /// Where the bytes of an address are: in the simulator's host memory, or in device memory.
    pub(crate) fn bytes_at(&self, number: u32, address: u64) -> Bytes {
        match self.memory.all.get(number) {
            Some(Allocation { block: Some(block), address: start, .. }) => {
                Bytes::Host(block.pointer.add((address - start) as usize))
            }
            Some(allocation) => Bytes::Device(allocation.physical + (address - allocation.address)),
            None => Bytes::Device(address),
        }
    }

    /// A stream-ordered allocation takes place.
    pub(crate) fn allocation_runs(&mut self, number: u32) {
        let at = self.running_point();
        if let Some(allocation) = self.memory.all.get_mut(number) {
            (allocation.ready, allocation.gone, allocation.at) = (true, false, at);
            allocation.history.clear();
        }
        self.poison(number);
    }

    /// A free takes place.
    pub(crate) fn free_runs(&mut self, number: u32) {
        self.check_free(number);
        self.poison(number);
        if let Some(allocation) = self.memory.all.get_mut(number) {
            allocation.gone = true;
        }
        self.bury(number);
    }

    fn poison(&mut self, number: u32) {
        match self.memory.all.get(number) {
            Some(Allocation { home: Home::Imported(_), .. }) | None => {}
            Some(Allocation { block: Some(block), .. }) => block.poison(),
            Some(allocation) => self.backing.poison(allocation.physical, allocation.span),
        }
    }

    /// The graph that an allocation belonged to is gone, and perhaps was never launched.
    pub(crate) fn memory_leaves_graph(&mut self, number: u32, never_made: bool) {
        if let Some(allocation) = self.memory.all.get_mut(number) {
            allocation.home = Home::Linear;
            allocation.gone |= never_made;
        }
        self.bury(number);
    }

    /// Removes an allocation that nobody can name and nothing uses.
    fn bury(&mut self, number: u32) {
        let Some(allocation) = self.memory.all.get(number) else { return };
        if !allocation.gone || allocation.freed.is_none() || allocation.uses > 0 || allocation.home == Home::Graph {
            return;
        }
        let home = allocation.home;
        self.memory.all.remove(number);
        if let Home::Pool(pool) | Home::Imported(pool) = home {
            self.pool_lost_allocation(pool);
        }
    }

    /// A reset takes away the memory of a device.
    pub(crate) fn abandon_memory(&mut self, device: usize) {
        let by = self.operation();
        let lost: Vec<u32> = self
            .memory
            .all
            .iter()
            .filter(|(_, allocation)| allocation.device == device)
            .map(|(number, _)| number)
            .collect();
        for number in lost {
            self.memory.forget(number, by);
            if let Some(Allocation { block: Some(block), .. }) = self.memory.all.remove(number) {
                self.memory.graveyard.push(block);
            }
        }
        self.abandon_pools(device);
    }
}

/// Where bytes are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes {
    Host(HostPointer),
    Device(u64),
}

pub(crate) fn info(state: &mut State, free: Out<usize>, total: Out<usize>) -> Answer {
    let context = state.current_context()?;
    let reserved = state.device(context.device)?.reserved;
    free.set_if_wanted(state.options.device_memory.saturating_sub(reserved) as usize);
    total.set_if_wanted(state.options.device_memory as usize);
    Ok(())
}

pub(crate) fn allocate(state: &mut State, pointer: Out<CUdeviceptr_v2>, bytes: usize) -> Answer {
    pointer.required()?;
    let context = state.current_context()?;
    if bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.unsafe_in_capture()?;
    let pool = state.device(context.device)?.linear_pool;
    let (address, span) = state.take_from(pool, bytes as u64, None)?;
    let made = state.operation();
    let number = state.add_allocation(pool, Home::Linear, address, bytes as u64, span, made);
    state.allocation_runs(number);
    pointer.set(address)
}
