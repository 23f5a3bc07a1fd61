//! Graphs: captured work, and its memory.

use core::ffi::{c_ulonglong, c_void};
use std::sync::Arc;

use cuda_sys::*;

use crate::{
    args::Out,
    capture::Captured,
    checker::{Misuse, Operation},
    handle::Kind,
    memory::Home,
    past::Mark,
    state::{Answer, State},
    work::{Op, Point, QueueId, Work},
};

/// A graph that came from a capture.
#[derive(Debug)]
pub(crate) struct Graph {
    captured: Arc<Captured>,
    /// Behind the last launch of what was instantiated from it and is gone.
    last: Option<Mark>,
}

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Exec {
    captured: Arc<Captured>,
    frees_on_launch: bool,
    /// Behind the last launch; the next one comes after it.
    last: Option<Mark>,
}

impl State {
    pub(crate) fn add_graph(&mut self, captured: Captured) -> u32 {
        self.graphs.insert(Graph { captured: Arc::new(captured), last: None })
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
        self.end_graph_memory(allocations, None);
    }

    /// Nothing launches these allocations any more. Their memory can be used again behind the last launch; what that left
    /// allocated stays so until somebody frees it.
    fn end_graph_memory(&mut self, allocations: &[u32], last: Option<Point>) {
        let by = self.operation();
        for number in allocations {
            let Some(allocation) = self.memory.all.get(*number) else { continue };
            if allocation.freed.is_none() {
                if last.is_some() {
                    continue;
                }
                self.memory.forget(*number, by);
            }
            self.give_graph_memory(*number, last);
        }
    }

    /// A graph or what was instantiated from it is gone.
    fn graph_ends(&mut self, captured: &Arc<Captured>, last: Option<Mark>) {
        let same = |other: &Arc<Captured>| Arc::ptr_eq(other, captured);
        if let Some((_, graph)) = self.graphs.iter_mut().find(|(_, graph)| same(&graph.captured)) {
            graph.last = last.or(graph.last.take());
        } else if let Some((_, exec)) = self.execs.iter_mut().find(|(_, exec)| same(&exec.captured)) {
            exec.last = exec.last.take().or(last);
        } else {
            self.end_graph_memory(&captured.allocations, last.map(|last| last.point));
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
    // Of a graph with memory of its own there can be one at a time.
    let again = state.execs.iter().any(|(_, exec)| Arc::ptr_eq(&exec.captured, &captured));
    if again && !captured.allocations.is_empty() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let auto = u64::from(CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0);
    let number = state.execs.insert(Exec { captured, frees_on_launch: flags & auto != 0, last: None });
    exec.set(state.handle(Kind::GraphExec, number))
}

/// The captured order is kept, which is one of the orders that the graph allows.
pub(crate) fn launch(state: &mut State, exec: CUgraphExec, stream: CUstream) -> Answer {
    let queue = state.queue_of(stream)?;
    let number = state.exec(exec)?;
    let Some(found) = state.execs.get_mut(number) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    let captured = Arc::clone(&found.captured);
    let (last, frees) = (found.last.clone(), found.frees_on_launch);
    if last.is_some() && !frees && state.holds_memory(&captured) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(last) = last.filter(|last| last.point.queue != queue) {
        state.submit(queue, Work::Wait(last.point))?;
        state.queue_waits(queue, &last);
    }
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
    // An empty graph has its place in the order too.
    state.submit(queue, Work::Nothing)?;
    let last = state.queues.mark(queue);
    if let Some(found) = state.execs.get_mut(number) {
        found.last = Some(last);
    }
    Ok(())
}

pub(crate) fn destroy(state: &mut State, graph: CUgraph) -> Answer {
    let number = state.graph(graph)?;
    if let Some(graph) = state.graphs.remove(number) {
        state.graph_ends(&graph.captured, graph.last);
    }
    Ok(())
}

pub(crate) fn destroy_exec(state: &mut State, exec: CUgraphExec) -> Answer {
    let number = state.exec(exec)?;
    if let Some(exec) = state.execs.remove(number) {
        state.graph_ends(&exec.captured, exec.last);
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
    let Some(pool) = state.pools.get(number) else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    // As the driver has it: what graphs have used counts as used until it is trimmed.
    let (reserved, reserved_high) = pool.reserved();
    value.cast::<cuuint64_t>().set(match attribute {
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => reserved,
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => reserved_high,
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
        CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
        | CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => pool.reset_reserved_high(),
        _ => return Err(invalid),
    }
    Ok(())
}

pub(crate) fn trim_memory(state: &mut State, device: CUdevice) -> Answer {
    let number = state.graph_pool(device)?;
    state.trim_pool(number, 0);
    Ok(())
}
