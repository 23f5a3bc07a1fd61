//! Pinned host memory: allocated by the driver, or registered with it.

use core::ffi::{c_uint, c_void};
use std::collections::BTreeMap;

use cuda_sys::*;

use crate::{
    args::{HostPointer, Out},
    checker::Misuse,
    copy,
    history::{History, Use},
    memory::HostBlock,
    scheduler,
    slots::Call,
    sources::Sources,
    state::{Answer, State},
};

/// One range of pinned memory.
#[derive(Debug)]
struct Range {
    bytes: u64,
    pointer: HostPointer,
    /// The driver's own; none if it is registered.
    block: Option<HostBlock>,
    flags: c_uint,
    /// Pending operations that use it.
    uses: u32,
    /// The uses that have run.
    history: History,
    sources: Sources,
}

impl Range {
    const fn new(pointer: HostPointer, bytes: u64, block: Option<HostBlock>, flags: c_uint) -> Self {
        Self { bytes, pointer, block, flags, uses: 0, history: History::new(), sources: Sources::new() }
    }
}

/// All pinned memory, by address.
#[derive(Debug)]
pub(crate) struct HostMemory(BTreeMap<u64, Range>);

impl HostMemory {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// How many allocations, or registered ranges, there are.
    pub(crate) fn count(&self, allocated: bool) -> usize {
        self.0.values().filter(|range| range.block.is_some() == allocated).count()
    }

    /// The pinned range that all these bytes lie in: a pointer to them, and the range's start.
    pub(crate) fn pinned(&self, address: u64, bytes: u64) -> Option<(HostPointer, u64)> {
        let (start, range) = self.0.range(..=address).next_back()?;
        let offset = address - start;
        let inside = offset < range.bytes && bytes <= range.bytes - offset;
        inside.then(|| (range.pointer.add(offset as usize), *start))
    }

    /// The size and flags of the range that starts there.
    pub(crate) fn range(&self, start: u64) -> Option<(u64, c_uint)> {
        self.0.get(&start).map(|range| (range.bytes, range.flags))
    }

    pub(crate) fn count_use(&mut self, start: u64, more: bool) {
        if let Some(range) = self.0.get_mut(&start) {
            range.uses = if more { range.uses + 1 } else { range.uses.saturating_sub(1) };
        }
    }

    /// The copies that read the range that starts there.
    pub(crate) fn sources(&mut self, start: u64) -> Option<&mut Sources> {
        self.0.get_mut(&start).map(|range| &mut range.sources)
    }

    fn overlaps(&self, start: u64, bytes: u64) -> bool {
        self.0.range(..start + bytes).next_back().is_some_and(|(at, range)| at + range.bytes > start)
    }
}

pub(crate) fn allocate(state: &mut State, pointer: Out<*mut c_void>, bytes: usize, flags: c_uint) -> Answer {
    pointer.required()?;
    state.current_context()?;
    if bytes == 0 || flags > 7 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.unsafe_in_capture()?;
    if bytes as u64 > 1 << 36 {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let block = HostBlock::new(bytes as u64).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let (host, start) = (block.pointer, block.expose());
    state.host.0.insert(start, Range::new(host, bytes as u64, Some(block), flags));
    pointer.set(host.0.cast())
}

pub(crate) fn free(call: &mut Call, pointer: HostPointer) -> Answer {
    call.current_context()?;
    let start = pointer.address();
    if call.host.0.get(&start).is_none_or(|range| range.block.is_none()) {
        call.found(Misuse::ForeignFree, start, 0, None);
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    call.unsafe_in_capture()?;
    remove(call, start)
}

pub(crate) fn register(state: &mut State, pointer: HostPointer, bytes: usize, flags: c_uint) -> Answer {
    state.current_context()?;
    if pointer.0.is_null() || bytes == 0 || flags > 15 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.unsafe_in_capture()?;
    let start = copy::expose(pointer.0.cast());
    if state.host.overlaps(start, bytes as u64) {
        return Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    state.host.0.insert(start, Range::new(pointer, bytes as u64, None, flags));
    Ok(())
}

pub(crate) fn unregister(call: &mut Call, pointer: HostPointer) -> Answer {
    call.current_context()?;
    let start = pointer.address();
    if call.host.0.get(&start).is_none_or(|range| range.block.is_some()) {
        return Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    }
    call.unsafe_in_capture()?;
    remove(call, start)
}

impl State {
    /// Checks that the operation under way may use these bytes of a pinned range, and remembers that it has.
    pub(crate) fn use_pinned(&mut self, range: u64, start: u64, bytes: u64, kind: Use) {
        let Some(running) = self.running.clone() else { return };
        if !self.options.check_order {
            return;
        }
        let Some(found) = self.host.0.get_mut(&range) else { return };
        if let Some(access) = found.history.note(start, start + bytes, kind, running.operation, &running.stand) {
            self.found_race(start, bytes, access.operation);
        }
        if kind == Use::Read {
            self.check_own_source(range);
        }
    }

    /// Checks that the host has waited for all uses of a range that is about to end.
    fn check_end(&mut self, start: u64) {
        let (ordered, stand) = (self.options.check_order, self.host_stand());
        let Some(range) = self.host.0.get(&start) else { return };
        let bytes = range.bytes;
        let ran = if ordered { range.history.unordered(&stand) } else { None };
        if range.uses > 0 || ran.is_some() {
            self.found(Misuse::FreedInUse, start, bytes, ran.map(|access| access.operation));
        }
        if ordered {
            self.check_source(start, start, bytes);
        }
    }
}

/// Ends a range. Work that still uses it is a mistake, and is waited for.
fn remove(call: &mut Call, start: u64) -> Answer {
    call.check_end(start);
    let points = call.queues.unfinished(None);
    scheduler::wait_all(call, &points)?;
    call.host.0.remove(&start);
    Ok(())
}

/// Pinned memory has the same address on the device.
pub(crate) fn device_pointer(
    state: &mut State,
    device: Out<CUdeviceptr_v2>,
    host: HostPointer,
    flags: c_uint,
) -> Answer {
    device.required()?;
    if flags != 0 || state.host.pinned(host.address(), 1).is_none() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    device.set(host.address())
}
