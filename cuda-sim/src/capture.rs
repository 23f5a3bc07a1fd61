//! Stream capture: work that becomes a graph instead of running.

use cuda_sys::*;

use crate::{
    args::Out,
    checker::Operation,
    context::{CUstreamCaptureMode_, ContextRef},
    handle::Kind,
    slots,
    state::{Answer, State},
    work::{Op, QueueId},
};

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {
    id: u64,
    origin: QueueId,
    mode: CUstreamCaptureMode,
    thread: u64,
    pub(crate) ops: Vec<Op>,
    /// Allocations that the graph makes.
    pub(crate) allocations: Vec<u32>,
    invalid: bool,
    /// Ends as usual, with a graph that cannot be instantiated.
    spoilt: bool,
    members: Vec<Member>,
}

/// A stream that takes part.
#[derive(Debug)]
struct Member {
    queue: QueueId,
    /// Its last work that nothing else in the capture waits for, as a position among all the work.
    loose: Option<usize>,
}

/// What a finished capture becomes.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) ops: Vec<Op>,
    pub(crate) allocations: Vec<u32>,
    pub(crate) spoilt: bool,
}

impl State {
    /// If the queue is being captured: the capture's id, and the position of what is captured next.
    pub(crate) fn captures_on(&self, queue: QueueId) -> Result<Option<(u64, usize)>, CUresult> {
        match self.capture_of(queue) {
            Some(capture) if capture.invalid => Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
            capture => Ok(capture.map(|capture| (capture.id, capture.ops.len()))),
        }
    }

    fn capture_of(&self, queue: QueueId) -> Option<&Capture> {
        self.captures.get(self.queues.get(queue)?.capture?)
    }

    pub(crate) fn capture_of_mut(&mut self, queue: QueueId) -> Option<&mut Capture> {
        self.captures.get_mut(self.queues.get(queue)?.capture?)
    }

    /// Adds work to a capture.
    pub(crate) fn capture_op(&mut self, capture: u32, queue: QueueId, op: Op) -> Answer {
        let Some(capture) = self.captures.get_mut(capture) else {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        };
        if capture.invalid {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        capture.ops.push(op);
        let position = capture.ops.len();
        if let Some(member) = capture.members.iter_mut().find(|member| member.queue == queue) {
            member.loose = Some(position);
        }
        Ok(())
    }

    pub(crate) fn invalidate_capture_of(&mut self, queue: QueueId) {
        if let Some(capture) = self.capture_of_mut(queue) {
            capture.invalid = true;
        }
    }

    pub(crate) fn spoil_capture_of(&mut self, queue: QueueId) {
        if let Some(capture) = self.capture_of_mut(queue) {
            capture.spoilt = true;
        }
    }

    /// A stream waits for an event that was recorded in a capture: it takes part from now on.
    pub(crate) fn join_capture(&mut self, queue: QueueId, id: u64, from: QueueId, position: usize) -> Answer {
        let found = self
            .captures
            .iter()
            .find(|(_, capture)| capture.id == id)
            .map(|(number, capture)| (number, capture.invalid));
        let Some((number, invalid)) = found else { return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT) };
        if invalid {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        match self.queues.get(queue).and_then(|queue| queue.capture) {
            Some(own) if own != number => {
                self.invalidate_capture_of(queue);
                if let Some(capture) = self.captures.get_mut(number) {
                    capture.invalid = true;
                }
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE);
            }
            _ => {}
        }
        let legacy = self.queues.get(queue).is_some_and(|queue| queue.legacy);
        if legacy {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        }
        let Some(capture) = self.captures.get_mut(number) else { return Ok(()) };
        for member in capture.members.iter_mut().filter(|member| member.queue == from && from != queue) {
            if member.loose.is_some_and(|loose| loose <= position) {
                member.loose = None;
            }
        }
        let here = capture.ops.len();
        match capture.members.iter_mut().find(|member| member.queue == queue) {
            Some(member) => member.loose = Some(here),
            None => capture.members.push(Member { queue, loose: Some(here) }),
        }
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.capture = Some(number);
        }
        Ok(())
    }

    /// Waiting for a stream that is being captured, or asking after it, ends the capture's use.
    pub(crate) fn waits_in_capture(&mut self, queue: QueueId) -> Answer {
        if self.capture_of(queue).is_some() {
            self.invalidate_capture_of(queue);
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.breaks_captures_implicitly(queue)
    }

    /// Work on the legacy default stream would have to be ordered with a blocking stream that is being captured.
    pub(crate) fn breaks_captures_implicitly(&mut self, queue: QueueId) -> Answer {
        let broken = self.captures_beside(queue);
        for number in &broken {
            if let Some(capture) = self.captures.get_mut(*number) {
                capture.invalid = true;
            }
        }
        if broken.is_empty() { Ok(()) } else { Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) }
    }

    /// The captures of blocking streams, if the queue is the legacy default stream of their context.
    fn captures_beside(&self, queue: QueueId) -> Vec<u32> {
        let Some((context, true)) = self.queues.get(queue).map(|queue| (queue.context, queue.legacy)) else {
            return Vec::new();
        };
        let blocking = |capture: &Capture| {
            capture.members.iter().any(|member| {
                self.queues.get(member.queue).is_some_and(|queue| queue.blocking && queue.context == context)
            })
        };
        self.captures.iter().filter(|(_, capture)| blocking(capture)).map(|(number, _)| number).collect()
    }

    /// Whether the legacy default stream is captured cannot be said beside such captures; to ask leaves them whole.
    fn can_be_asked(&self, queue: QueueId) -> Answer {
        if self.captures_beside(queue).is_empty() { Ok(()) } else { Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) }
    }

    /// Calls that may wait or work on the default stream spoil captures that do not allow for it: those of this
    /// thread, and global ones of other threads.
    pub(crate) fn unsafe_in_capture(&mut self) -> Answer {
        if self.captures.bound() == 0 {
            return Ok(());
        }
        let mode = self.thread().capture_mode.0;
        self.breaks_captures(mode)
    }

    /// A wait for the whole context is no better in the relaxed mode.
    pub(crate) fn waits_for_all_in_capture(&mut self) -> Answer {
        self.breaks_captures(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
    }

    fn breaks_captures(&mut self, mode: CUstreamCaptureMode) -> Answer {
        let thread = slots::thread();
        let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let global = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        let mut broken = false;
        for (_, capture) in self.captures.iter_mut() {
            let own = capture.thread == thread && capture.mode != relaxed && mode != relaxed;
            if own || capture.mode == global && mode == global {
                capture.invalid = true;
                broken = true;
            }
        }
        if broken { Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// Ends a capture for its streams.
    fn leave_capture(&mut self, number: u32) -> Option<Capture> {
        let capture = self.captures.remove(number)?;
        for member in &capture.members {
            if let Some(queue) = self.queues.get_mut(member.queue) {
                queue.capture = None;
            }
        }
        if self.captures.iter().next().is_none() {
            self.captures = crate::table::Table::new();
        }
        Some(capture)
    }

    /// A stream is destroyed: a capture that began there is over, one that it takes part in is invalid.
    pub(crate) fn stream_leaves_capture(&mut self, queue: QueueId) {
        let Some(number) = self.queues.get(queue).and_then(|queue| queue.capture) else { return };
        match self.captures.get_mut(number) {
            Some(capture) if capture.origin != queue => capture.invalid = true,
            _ => {
                if let Some(capture) = self.leave_capture(number) {
                    self.drop_graph_memory(&capture.allocations);
                }
            }
        }
    }

    /// A reset ends the captures on a context's streams.
    pub(crate) fn abandon_captures(&mut self, context: ContextRef) {
        let numbers: Vec<u32> = self
            .captures
            .iter()
            .filter(|(_, capture)| self.queues.get(capture.origin).is_some_and(|queue| queue.context == context))
            .map(|(number, _)| number)
            .collect();
        for number in numbers {
            self.leave_capture(number);
        }
    }

    /// The operation that was captured last, for reports.
    pub(crate) fn captured_operation(&mut self, queue: QueueId) -> Operation {
        let stream = self.queues.get(queue).map(|queue| queue.stream_id);
        Operation { id: self.next_operation(), entry: self.entry, stream }
    }
}

pub(crate) fn status(state: &mut State, stream: CUstream, status: Out<CUstreamCaptureStatus>) -> Answer {
    let queue = state.queue_of(stream)?;
    state.can_be_asked(queue)?;
    status.set(status_of(state, queue))
}

fn status_of(state: &State, queue: QueueId) -> CUstreamCaptureStatus {
    match state.captures_on(queue) {
        Ok(None) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        Ok(Some(_)) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        Err(_) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    }
}

pub(crate) fn info(
    state: &mut State,
    stream: CUstream,
    status: Out<CUstreamCaptureStatus>,
    id: Out<cuuint64_t>,
) -> Answer {
    let queue = state.queue_of(stream)?;
    state.can_be_asked(queue)?;
    status.set(status_of(state, queue))?;
    if let Some(capture) = state.capture_of(queue) {
        id.set_if_wanted(capture.id);
    }
    Ok(())
}

pub(crate) fn begin(state: &mut State, stream: CUstream, mode: CUstreamCaptureMode) -> Answer {
    let queue = state.queue_of(stream)?;
    if mode.0 > CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED.0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let (legacy, capturing) =
        state.queues.get(queue).map_or((false, false), |queue| (queue.legacy, queue.capture.is_some()));
    if legacy {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if capturing {
        return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
    }
    let capture = Capture {
        id: state.serial(),
        origin: queue,
        mode,
        thread: slots::thread(),
        ops: Vec::new(),
        allocations: Vec::new(),
        invalid: false,
        spoilt: false,
        members: vec![Member { queue, loose: None }],
    };
    let number = state.captures.insert(capture);
    if let Some(queue) = state.queues.get_mut(queue) {
        queue.capture = Some(number);
    }
    Ok(())
}

pub(crate) fn end(state: &mut State, stream: CUstream, graph: Out<CUgraph>) -> Answer {
    let queue = state.queue_of(stream)?;
    graph.required()?;
    graph.set(core::ptr::null_mut())?;
    let number = state.queues.get(queue).and_then(|queue| queue.capture).ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
    let Some(capture) = state.captures.get_mut(number) else { return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE) };
    if capture.origin != queue {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    let relaxed = capture.mode == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    if capture.thread != slots::thread() && !relaxed {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }
    let Some(capture) = state.leave_capture(number) else { return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE) };
    let unjoined = capture.members.iter().any(|member| member.queue != queue && member.loose.is_some());
    if capture.invalid || unjoined {
        state.drop_graph_memory(&capture.allocations);
    }
    if capture.invalid {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    if unjoined {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    let captured = Captured { ops: capture.ops, allocations: capture.allocations, spoilt: capture.spoilt };
    let number = state.add_graph(captured);
    graph.set(state.handle(Kind::Graph, number))
}

pub(crate) fn exchange_mode(state: &mut State, mode: Out<CUstreamCaptureMode>) -> Answer {
    let new = mode.get()?;
    if new.0 > CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED.0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let old = core::mem::replace(&mut state.thread().capture_mode, CUstreamCaptureMode_(new));
    mode.set(old.0)
}
