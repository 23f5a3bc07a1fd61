//! Work that is enqueued on streams, and the queues that hold it.

use std::{collections::VecDeque, sync::Arc};

use cuda_sys::{CUhostFn, CUresult};

use crate::{
    args::HostPointer,
    checker::Operation,
    context::ContextRef,
    kernel::{Launch, Mention},
    past::{Mark, Past},
    signal::Signal,
    state::State,
};

/// A queue's number. A queue outlives its stream until its work is done.
pub(crate) type QueueId = u32;

/// A point in stream order: reached once the queue has completed that many operations. A queue that is used again
/// counts on, so a point never becomes unreached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) queue: QueueId,
    pub(crate) count: u64,
}

/// Where a copy reads or writes.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Device memory, of that allocation.
    Device { address: u64, allocation: u32 },
    /// Host memory; pinned memory is known by the start of its range.
    Host { pointer: HostPointer, range: Option<u64> },
    /// Bytes taken from the host during the call.
    Staged(Vec<u8>),
}

/// The user's pointer to a host function's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFunction {
    pub(crate) function: CUhostFn,
    pub(crate) data: HostPointer,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Done when the point is reached.
    Wait(Point),
    /// Completes an event's record.
    Record {
        event: u32,
        serial: u64,
    },
    /// Done when some process has signalled the event that often.
    WaitSignal(Arc<Signal>, u64),
    /// Tells all processes of a record.
    Signal(Arc<Signal>, u64),
    Allocate(u32),
    Free(u32),
    Fill {
        address: u64,
        allocation: u32,
        bytes: u64,
        pattern: u32,
        width: u8,
    },
    /// A fill of pinned host memory.
    FillHost {
        pointer: HostPointer,
        range: u64,
        bytes: u64,
        pattern: u32,
        width: u8,
    },
    Copy {
        target: Place,
        source: Place,
        bytes: usize,
    },
    /// Has managed memory moved, which is to be there; it is left where it is.
    Prefetch {
        address: u64,
        allocation: u32,
        bytes: u64,
    },
    CallHost(HostFunction),
    Launch(Arc<Launch>),
    /// A place in the order: the end of a graph's launch.
    Nothing,
}

/// One piece of work, with what a report needs.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) operation: Operation,
    pub(crate) work: Work,
    /// What comes before it on other queues; known once it is on a queue.
    pub(crate) past: Past,
}

/// The work of one stream, in order.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) ops: VecDeque<Op>,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    /// A host function of this queue is running, without the lock.
    pub(crate) running: bool,
    pub(crate) stream_id: u64,
    pub(crate) context: ContextRef,
    /// Whether the legacy default stream orders itself with it.
    pub(crate) blocking: bool,
    pub(crate) legacy: bool,
    /// For a blocking queue: how much of the legacy queue it is ordered after, and how much of it the legacy queue.
    legacy_seen: u64,
    seen_by_legacy: u64,
    /// What comes before its next work on other queues, and how much of what the host knows is in that.
    pub(crate) past: Past,
    pub(crate) host_version: u64,
    pub(crate) capture: Option<u32>,
    /// The stream is gone.
    pub(crate) retired: bool,
}

/// All queues.
#[derive(Debug)]
pub(crate) struct Queues {
    all: Vec<Queue>,
    free: Vec<QueueId>,
    /// Those that hold work.
    pub(crate) busy: Vec<QueueId>,
}

/// A queue longer than this is worked off to half of it before the call returns.
const CROWDED: usize = 1024;

impl Queues {
    pub(crate) const fn new() -> Self {
        Self { all: Vec::new(), free: Vec::new(), busy: Vec::new() }
    }

    /// A queue for a new stream; `waited` is what the host has waited for.
    pub(crate) fn add(
        &mut self,
        stream_id: u64,
        context: ContextRef,
        blocking: bool,
        legacy: bool,
        waited: &Past,
    ) -> QueueId {
        let mut queue = Queue {
            ops: VecDeque::new(),
            submitted: 0,
            completed: 0,
            running: false,
            stream_id,
            context,
            blocking,
            legacy,
            legacy_seen: 0,
            seen_by_legacy: 0,
            past: Past::nothing(),
            host_version: 0,
            capture: None,
            retired: false,
        };
        // The host must know that the old work is done: else it would seem to come before the new.
        let known = |number: &QueueId| {
            self.get(*number).is_some_and(|old| waited.covers(Point { queue: *number, count: old.submitted }))
        };
        if let Some(at) = self.free.iter().rposition(known)
            && let number = self.free.swap_remove(at)
            && let Some(old) = self.all.get_mut(number as usize)
        {
            queue.ops = core::mem::take(&mut old.ops);
            queue.submitted = old.submitted;
            queue.completed = old.completed;
            queue.seen_by_legacy = old.submitted;
            *old = queue;
            return number;
        }
        self.all.push(queue);
        (self.all.len() - 1) as QueueId
    }

    pub(crate) fn get(&self, queue: QueueId) -> Option<&Queue> {
        self.all.get(queue as usize)
    }

    pub(crate) fn get_mut(&mut self, queue: QueueId) -> Option<&mut Queue> {
        self.all.get_mut(queue as usize)
    }

    pub(crate) fn done(&self, point: Point) -> bool {
        self.get(point.queue).is_none_or(|queue| queue.completed >= point.count)
    }

    /// The point at which everything submitted so far is done.
    pub(crate) fn end(&self, queue: QueueId) -> Point {
        Point { queue, count: self.get(queue).map_or(0, |queue| queue.submitted) }
    }

    /// The same, with what comes before it on other queues.
    pub(crate) fn mark(&self, queue: QueueId) -> Mark {
        let past = self.get(queue).map_or(Past::nothing(), |queue| queue.past.clone());
        Mark { point: self.end(queue), past }
    }

    /// The ends of those queues.
    pub(crate) fn marks(&self, which: impl Fn(&Queue) -> bool) -> Vec<Mark> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, queue)| which(queue)).map(|(number, _)| self.mark(number as QueueId)).collect()
    }

    /// The ends of a context's queues, or of all, where work is left.
    pub(crate) fn unfinished(&self, context: Option<ContextRef>) -> Vec<Point> {
        let mut points = Vec::new();
        for (number, queue) in self.all.iter().enumerate() {
            if queue.completed < queue.submitted && context.is_none_or(|context| context == queue.context) {
                points.push(Point { queue: number as QueueId, count: queue.submitted });
            }
        }
        points
    }

    pub(crate) fn pending(&self) -> usize {
        self.busy.iter().filter_map(|queue| self.get(*queue)).map(|queue| queue.ops.len()).sum()
    }

    /// Ends a queue: its work is still done, then it is used again.
    pub(crate) fn retire(&mut self, number: QueueId) {
        if let Some(queue) = self.get_mut(number) {
            queue.retired = true;
            queue.capture = None;
        }
        self.recycle(number);
    }

    /// The point at which the work taken out last is done.
    pub(crate) fn next(&self, queue: QueueId) -> Point {
        Point { queue, count: self.get(queue).map_or(0, |queue| queue.completed + 1) }
    }

    /// Takes out the next piece of work.
    pub(crate) fn pop(&mut self, number: QueueId) -> Option<Op> {
        let queue = self.get_mut(number)?;
        let op = queue.ops.pop_front();
        if queue.ops.is_empty()
            && let Some(at) = self.busy.iter().position(|busy| *busy == number)
        {
            self.busy.swap_remove(at);
        }
        op
    }

    /// Notes that the piece of work taken out last is done.
    pub(crate) fn complete(&mut self, number: QueueId) {
        if let Some(queue) = self.get_mut(number) {
            queue.completed += 1;
            queue.running = false;
        }
        self.recycle(number);
    }

    fn recycle(&mut self, number: QueueId) {
        if let Some(queue) = self.get(number)
            && queue.retired
            && queue.completed == queue.submitted
            && !self.free.contains(&number)
        {
            self.free.push(number);
        }
    }

    fn push(&mut self, number: QueueId, op: Op) -> usize {
        let Some(queue) = self.all.get_mut(number as usize) else { return 0 };
        if queue.ops.is_empty() {
            self.busy.push(number);
        }
        queue.ops.push_back(op);
        queue.submitted += 1;
        queue.ops.len()
    }

    /// Drops the work of a context's queues: what a reset does.
    pub(crate) fn abandon(&mut self, context: ContextRef) -> Vec<Op> {
        let mut dropped = Vec::new();
        for queue in self.all.iter_mut().filter(|queue| queue.context == context) {
            queue.completed += queue.ops.len() as u64;
            queue.capture = None;
            dropped.extend(queue.ops.drain(..));
        }
        let all = &self.all;
        self.busy.retain(|busy| all.get(*busy as usize).is_some_and(|queue| !queue.ops.is_empty()));
        dropped
    }

    /// The waits that the legacy default stream's implicit ordering puts in front of new work on `number`.
    fn implicit_waits(&mut self, number: QueueId, legacy: Option<QueueId>) -> Vec<Point> {
        let mut waits = Vec::new();
        let Some((context, is_legacy, blocking, seen)) =
            self.get(number).map(|queue| (queue.context, queue.legacy, queue.blocking, queue.legacy_seen))
        else {
            return waits;
        };
        if is_legacy {
            for (other, queue) in self.all.iter_mut().enumerate() {
                if queue.context == context
                    && queue.blocking
                    && queue.completed < queue.submitted
                    && queue.seen_by_legacy < queue.submitted
                {
                    queue.seen_by_legacy = queue.submitted;
                    waits.push(Point { queue: other as QueueId, count: queue.submitted });
                }
            }
        } else if blocking && let Some(legacy) = legacy {
            let end = self.end(legacy);
            if seen < end.count && !self.done(end) {
                waits.push(end);
                if let Some(queue) = self.get_mut(number) {
                    queue.legacy_seen = end.count;
                }
            }
        }
        waits
    }
}

impl State {
    /// Enqueues work; on a stream that is being captured it becomes part of the graph instead, and has no point.
    pub(crate) fn submit(&mut self, number: QueueId, work: Work) -> Result<Option<Point>, CUresult> {
        let Some(queue) = self.queues.get(number) else { return Err(CUresult::CUDA_ERROR_INVALID_HANDLE) };
        let (stream, context, capture) = (queue.stream_id, queue.context, queue.capture);
        let operation = Operation { id: self.next_operation(), entry: self.entry, stream: Some(stream) };
        let mut op = Op { operation, work, past: Past::nothing() };
        if let Some(capture) = capture {
            self.capture_op(capture, number, op)?;
            return Ok(None);
        }
        self.breaks_captures_implicitly(number)?;
        let legacy = self.devices.get(context.device).and_then(|device| device.legacy);
        if let Some(legacy) = legacy {
            self.queue_waits_implicitly(number, legacy);
            for point in self.queues.implicit_waits(number, Some(legacy)) {
                self.queues.push(number, Op { operation, work: Work::Wait(point), past: Past::nothing() });
            }
        }
        self.hold(&op.work);
        self.catch_up(number);
        if let Some(queue) = self.queues.get(number) {
            op.past = queue.past.clone();
        }
        let length = self.queues.push(number, op);
        let end = self.queues.end(number);
        if length > CROWDED {
            self.crowded = Some(Point { queue: number, count: end.count - (CROWDED / 2) as u64 });
        }
        Ok(Some(end))
    }

    /// Counts the uses of memory that pending work makes.
    fn hold(&mut self, work: &Work) {
        self.count_uses(work, true);
    }

    /// The counterpart, once the work is done or dropped.
    pub(crate) fn let_go(&mut self, work: &Work) {
        self.count_uses(work, false);
    }

    fn count_uses(&mut self, work: &Work, more: bool) {
        match work {
            Work::Allocate(allocation)
            | Work::Free(allocation)
            | Work::Fill { allocation, .. }
            | Work::Prefetch { allocation, .. } => {
                self.count_use(*allocation, more);
            }
            Work::FillHost { range, .. } => self.host.count_use(*range, more),
            Work::Copy { target, source, .. } => {
                for place in [target, source] {
                    match place {
                        Place::Device { allocation, .. } => self.count_use(*allocation, more),
                        Place::Host { range: Some(range), .. } => self.host.count_use(*range, more),
                        Place::Host { .. } | Place::Staged(_) => {}
                    }
                }
            }
            Work::Launch(launch) => {
                for mention in launch.mentions() {
                    match mention {
                        Mention::Device(number) => self.count_use(*number, more),
                        Mention::Pinned(range) => self.host.count_use(*range, more),
                    }
                }
            }
            Work::Wait(_)
            | Work::Record { .. }
            | Work::WaitSignal(..)
            | Work::Signal(..)
            | Work::CallHost(_)
            | Work::Nothing => {}
        }
    }
}
