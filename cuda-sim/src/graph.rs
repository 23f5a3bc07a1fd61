//! Graphs: captured work, and its memory.

use core::ffi::{c_ulonglong, c_void};
use std::sync::{Arc, atomic::Ordering::Relaxed};

use cuda_sys::*;

use crate::{
    args::Out,
    capture::Captured,
    checker::{Misuse, Operation},
    handle::Kind,
    memory::Home,
    state::{Answer, State},
    work::{Op, QueueId, Work},
};

/// A graph that came from a capture.
#[derive(Debug)]
pub(crate) struct Graph {
    captured: Arc<Captured>,
}

/// An allocation of a graph that is no more.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) number: u32,
    /// A launch has enqueued its allocation, and its free if there is one.
    launched: bool,
}

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Exec {
    captured: Arc<Captured>,
    frees_on_launch: bool,
    launched: bool,
}

impl State {
    pub(crate) fn add_graph(&mut self, captured: Captured) -> u32 {
        self.graphs.insert(Graph { captured: Arc::new(captured) })
    }

    /// An allocation that each launch of the graph will make, always at the same address.
    pub(crate) fn allocate_in_graph(&mut self, bytes: u64, queue: QueueId) -> Result<u64, CUresult> {
        let device = self.queue_context(queue)?.device;
        let pool = self.device(device)?.graph_pool;
        let (address, span) = self.take_from(pool, bytes, None)?;
        let made = self.captured_operation(queue);
        let number = self.add_allocation(pool, Home::Graph, address, bytes, span, made);
        if let Some(capture) = self.capture_of_mut(queue) {
            capture.allocations.push(number);
        }
        self.submit(queue, Work::Allocate(number))?;
        Ok(address)
    }

    /// A free that each launch of the graph will make: of the capture's own allocations only.
    pub(crate) fn free_in_graph(&mut self, address: u64, queue: QueueId) -> Answer {
        let number = self.memory.starting(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let owned = self.capture_of_mut(queue).is_some_and(|capture| capture.allocations.contains(&number));
        if !owned {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.submit(queue, Work::Free(number))?;
        let by = self.captured_operation(queue);
        self.memory.forget(number, by);
        Ok(())
    }

    /// A capture has failed: what it allocated is no more.
    pub(crate) fn drop_graph_memory(&mut self, allocations: &[u32]) {
        let by = self.operation();
        for number in allocations {
            self.memory.forget(*number, by);
            self.orphans.push(Orphan { number: *number, launched: false });
        }
    }

    /// A graph, or one that can be launched, is no more. With the last of them goes what they share.
    fn end_captured(&mut self, captured: Arc<Captured>) {
        if let Some(captured) = Arc::into_inner(captured) {
            let launched = captured.launched.into_inner();
            self.orphans.extend(captured.allocations.iter().map(|number| Orphan { number: *number, launched }));
        }
        self.reclaim_graph_memory();
    }

    /// Has graphs' memory count as free that belongs to none and that nothing pending uses.
    fn reclaim_graph_memory(&mut self) {
        for orphan in core::mem::take(&mut self.orphans) {
            let Some(found) = self.memory.all.get(orphan.number) else { continue };
            if found.freed.is_some() && found.uses == 0 && (found.gone || !orphan.launched) {
                self.give_memory(orphan.number, None, false);
                self.memory.all.remove(orphan.number);
            } else {
                self.orphans.push(orphan);
            }
        }
    }

    fn exec(&mut self, exec: CUgraphExec) -> Result<u32, CUresult> {
        let number = self.number(Kind::GraphExec, exec).filter(|number| self.execs.get(*number).is_some());
        if number.is_none() {
            self.found(Misuse::UnknownHandle, exec.addr() as u64, 0, None);
        }
        number.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    fn graph(&mut self, graph: CUgraph) -> Result<u32, CUresult> {
        let number = self.number(Kind::Graph, graph).filter(|number| self.graphs.get(*number).is_some());
        if number.is_none() {
            self.found(Misuse::UnknownHandle, graph.addr() as u64, 0, None);
        }
        number.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    fn graph_pool(&mut self, device: CUdevice) -> Result<u32, CUresult> {
        let ordinal = self.ordinal(device)?;
        Ok(self.device(ordinal)?.graph_pool)
    }

    /// Whether a launch left an allocation that has not been freed since.
    fn holds_memory(&self, captured: &Captured) -> bool {
        captured
            .allocations
            .iter()
            .any(|number| self.memory.all.get(*number).is_some_and(|found| found.freed.is_none()))
    }
}

pub(crate) fn instantiate(state: &mut State, exec: Out<CUgraphExec>, graph: CUgraph, flags: c_ulonglong) -> Answer {
    exec.required()?;
    let number = state.graph(graph)?;
    let captured = state.graphs.get(number).map(|graph| Arc::clone(&graph.captured));
    let captured = captured.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if captured.spoilt || flags > 15 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let auto = u64::from(CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0);
    let number = state.execs.insert(Exec { captured, frees_on_launch: flags & auto != 0, launched: false });
    exec.set(state.handle(Kind::GraphExec, number))
}

/// The captured order is kept, which is one of the orders that the graph allows.
pub(crate) fn launch(state: &mut State, exec: CUgraphExec, stream: CUstream) -> Answer {
    let queue = state.queue_of(stream)?;
    let number = state.exec(exec)?;
    let Some(found) = state.execs.get_mut(number) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    let captured = Arc::clone(&found.captured);
    let (again, frees) = (found.launched, found.frees_on_launch);
    if again && !frees && state.holds_memory(&captured) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    captured.launched.store(true, Relaxed);
    for number in &captured.allocations {
        state.memory.revive(*number);
    }
    for Op { work, operation, .. } in &captured.ops {
        state.submit(queue, work.clone())?;
        if let Work::Free(number) = work {
            let by = Operation { id: state.operations, ..*operation };
            state.memory.forget(*number, by);
        }
    }
    if let Some(found) = state.execs.get_mut(number) {
        found.launched = true;
    }
    Ok(())
}

pub(crate) fn destroy(state: &mut State, graph: CUgraph) -> Answer {
    let number = state.graph(graph)?;
    if let Some(graph) = state.graphs.remove(number) {
        state.end_captured(graph.captured);
    }
    Ok(())
}

pub(crate) fn destroy_exec(state: &mut State, exec: CUgraphExec) -> Answer {
    let number = state.exec(exec)?;
    if let Some(exec) = state.execs.remove(number) {
        state.end_captured(exec.captured);
    }
    Ok(())
}

pub(crate) fn memory_attribute(
    state: &mut State,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: Out<c_void>,
) -> Answer {
    let number = state.graph_pool(device)?;
    state.reclaim_graph_memory();
    let Some(pool) = state.pools.get(number) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    let (reserved, reserved_high) = pool.reserved();
    value.cast::<cuuint64_t>().set(match attribute {
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => pool.used,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => pool.used_high,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => reserved,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => reserved_high,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    })
}

pub(crate) fn set_memory_attribute(
    state: &mut State,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: Out<c_void>,
) -> Answer {
    let number = state.graph_pool(device)?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let Some(pool) = state.pools.get_mut(number) else { return Err(invalid) };
    if value.cast::<cuuint64_t>().get()? != 0 {
        return Err(invalid);
    }
    match attribute {
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => pool.used_high = pool.used,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => pool.reset_reserved_high(),
        _ => return Err(invalid),
    }
    Ok(())
}

pub(crate) fn trim_memory(state: &mut State, device: CUdevice) -> Answer {
    let number = state.graph_pool(device)?;
    state.reclaim_graph_memory();
    state.trim_pool(number, 0);
    Ok(())
}
