//! Freeing: in stream order, and at once.

use cuda_sys::*;

use crate::{
    checker::{Misuse, Operation},
    memory::Home,
    scheduler,
    slots::Call,
    state::{Answer, State},
    work::{Point, Work},
};

impl State {
    /// The allocation that starts at the address; anything else is noted, and refused.
    fn freeable(&mut self, address: u64) -> Result<u32, CUresult> {
        if let Some(number) = self.memory.starting(address) {
            return Ok(number);
        }
        let inside = self.memory.holding(address).map(|(_, allocation)| allocation.made);
        let (misuse, earlier) = match (inside, self.memory.freed_at(address)) {
            (Some(made), _) => (Misuse::ForeignFree, Some(made)),
            (None, Some((start, by))) if start == address => (Misuse::FreedTwice, Some(by)),
            (None, freed) => (Misuse::ForeignFree, freed.map(|(_, by)| by)),
        };
        self.found(misuse, address, 0, earlier);
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// Gives an allocation's memory back, to be used again after the point. `counted` says whether it still counts
    /// as used.
    pub(crate) fn give_memory(&mut self, number: u32, after: Option<Point>, counted: bool) {
        let Some(allocation) = self.memory.all.get(number) else { return };
        let (address, bytes, span) = (allocation.address, allocation.bytes, allocation.span);
        let pool = match (allocation.home, self.devices.get(allocation.device)) {
            (Home::Pool(pool), _) => pool,
            (Home::Linear, Some(device)) => device.linear_pool,
            (Home::Graph, Some(device)) => device.graph_pool,
            _ => return,
        };
        if let Some(pool) = self.pools.get_mut(pool) {
            if !counted {
                pool.used = pool.used.saturating_sub(bytes);
            }
            match &mut pool.space {
                Some(space) => space.give(address, span, after),
                None => pool.host.give(span, after),
            }
        }
    }

    /// Gives back memory that was a graph's; it is freed, or will be by a launch under way.
    pub(crate) fn give_graph_memory(&mut self, number: u32, after: Option<Point>) {
        self.give_memory(number, after, false);
        self.memory_leaves_graph(number, after.is_none());
    }

    /// The imports that go with an imported pointer: the first free unmaps them all.
    fn aliases(&self, number: u32) -> Vec<u32> {
        let Some(allocation) = self.memory.all.get(number) else { return Vec::new() };
        if !matches!(allocation.home, Home::Imported(_)) {
            return vec![number];
        }
        let same = |other: &&crate::memory::Allocation| {
            matches!(other.home, Home::Imported(_)) && other.physical == allocation.physical
        };
        self.memory.live().filter(same).filter_map(|other| self.memory.starting(other.address)).collect()
    }
}

pub(crate) fn in_order(state: &mut State, pointer: CUdeviceptr_v2, stream: CUstream) -> Answer {
    let queue = state.queue_of(stream)?;
    if pointer == 0 {
        return Ok(());
    }
    if state.captures_on(queue)?.is_some() {
        return state.free_in_graph(pointer, queue);
    }
    state.unsafe_in_capture()?;
    let number = state.freeable(pointer)?;
    let home = state.memory.all.get(number).map(|allocation| allocation.home);
    if home == Some(Home::Managed) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    for number in state.aliases(number) {
        let point = state.submit_in_order(queue, Work::Free(number))?;
        let stream = state.stream_id(queue);
        let by = Operation { id: state.operations, entry: state.entry, stream };
        state.memory.forget(number, by);
        // Memory of a graph stays the graph's, for its next launch.
        if home != Some(Home::Graph) {
            state.give_memory(number, point, false);
        }
    }
    Ok(())
}

/// `cuMemFree`: waits for the device, then the memory is gone.
pub(crate) fn now(call: &mut Call, pointer: CUdeviceptr_v2) -> Answer {
    let context = call.current_context()?;
    if pointer == 0 {
        return Ok(());
    }
    call.unsafe_in_capture()?;
    let number = call.freeable(pointer)?;
    let Some(allocation) = call.memory.all.get(number) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    let (device, home) = (allocation.device, allocation.home);
    let of_device = call.device(device)?.context();
    let (mut points, mut ends) = (call.queues.unfinished(Some(context)), call.marks_of(context));
    if of_device != context {
        points.extend(call.queues.unfinished(Some(of_device)));
        ends.extend(call.marks_of(of_device));
    }
    scheduler::wait_all(call, &points)?;
    call.host_saw_all(&ends);
    // Other threads may have been let in while a host function ran.
    if call.memory.starting(pointer) != Some(number) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let by = call.operation();
    for number in call.aliases(number) {
        call.memory.forget(number, by);
        // A pool goes on counting what was not freed in its own way.
        call.give_memory(number, None, matches!(home, Home::Pool(_)));
        call.free_runs(number);
    }
    call.give_back();
    Ok(())
}
