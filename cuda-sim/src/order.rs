//! What is ordered before what, and the checks that depend on it.
//!
//! Each queue has a [`Past`]: the points of other queues that come before whatever it is given next. An operation takes
//! its queue's past with it when it is enqueued; an event keeps that of the work it marks. A queue's past grows when the
//! stream is told to wait for an event, by the implicit ordering of the legacy default stream, and by what the host
//! knows.
//!
//! The host's past grows when it waits for a stream, an event or a context, when it asks after one and hears that it is
//! done, when a copy returns only after it is done, and when a host function runs, since that can tell other threads.
//! There is one such past for all threads of the process: how they hand work to each other cannot be seen here, and
//! every order in which they call the driver is assumed to be meant. So two threads that race for the driver are not
//! found out, and no program that is right is accused.
//!
//! What the driver does on its own adds nothing: that a pool hands out memory again which was freed on another stream,
//! that a call waits because a queue is full, or that freeing pinned memory waits for the device orders nothing that a
//! program may rely on.

use cuda_sys::CUresult;

use crate::{
    checker::{Misuse, Operation},
    context::ContextRef,
    history::Use,
    past::{Mark, Past, Stand},
    state::State,
    work::{Point, QueueId, Work},
};

/// An operation that is being run.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) operation: Operation,
    pub(crate) stand: Stand,
}

/// What the host has waited for, and how often that has grown.
#[derive(Debug)]
pub(crate) struct HostPast {
    pub(crate) past: Past,
    pub(crate) version: u64,
}

impl HostPast {
    pub(crate) const fn new() -> Self {
        Self { past: Past::nothing(), version: 0 }
    }
}

impl State {
    /// The host has waited for the mark, or heard that it was reached.
    pub(crate) fn host_saw(&mut self, mark: &Mark) {
        let news = self.waited.past.join(&mark.past) | self.waited.past.add(mark.point);
        self.waited.version += u64::from(news);
    }

    pub(crate) fn host_saw_all(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.host_saw(mark);
        }
    }

    /// What is enqueued from now on comes after what the host has waited for.
    pub(crate) fn catch_up(&mut self, queue: QueueId) {
        let Self { queues, waited, .. } = self;
        if let Some(queue) = queues.get_mut(queue)
            && queue.host_version != waited.version
        {
            queue.host_version = waited.version;
            queue.past.join(&waited.past);
        }
    }

    /// What is enqueued on a queue from now on comes after the mark.
    pub(crate) fn queue_waits(&mut self, queue: QueueId, mark: &Mark) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.past.join(&mark.past);
            queue.past.add(mark.point);
        }
    }

    /// Enqueues work on the queue, or outside its order if the call is to order nothing.
    pub(crate) fn submit_in_order(&mut self, queue: QueueId, work: Work) -> Result<Option<Point>, CUresult> {
        let context = self.queue_context(queue)?;
        let (false, Some(stream)) = (!self.ignoring, self.stream_id(queue)) else { return self.submit(queue, work) };
        let apart = self.queues.add(stream, context, false, false, &self.waited.past);
        let point = self.submit(apart, work);
        self.queues.retire(apart);
        point
    }

    /// The implicit ordering of the legacy default stream, before new work on `queue`.
    pub(crate) fn queue_waits_implicitly(&mut self, number: QueueId, legacy: QueueId) {
        let Some((context, blocking)) = self.queues.get(number).map(|queue| (queue.context, queue.blocking)) else {
            return;
        };
        if number == legacy {
            for mark in self.queues.marks(|queue| queue.context == context && queue.blocking) {
                self.queue_waits(number, &mark);
            }
        } else if blocking {
            let mark = self.queues.mark(legacy);
            self.queue_waits(number, &mark);
        }
    }

    /// The ends of all queues of a context.
    pub(crate) fn marks_of(&self, context: ContextRef) -> Vec<Mark> {
        self.queues.marks(|queue| queue.context == context)
    }

    /// Where the host itself stands.
    pub(crate) fn host_stand(&self) -> Stand {
        Stand { point: None, past: self.waited.past.clone() }
    }

    /// Where the operation under way stands.
    fn stand(&self) -> Stand {
        match &self.running {
            Some(running) => running.stand.clone(),
            None => self.host_stand(),
        }
    }

    /// The point of the operation being run.
    pub(crate) fn running_point(&self) -> Option<Point> {
        self.running.as_ref().and_then(|running| running.stand.point)
    }

    /// Checks that the operation under way may use these bytes of an allocation, and remembers that it has.
    pub(crate) fn use_memory(&mut self, number: u32, address: u64, bytes: u64, kind: Use) {
        let stand = self.stand();
        let ordered = self.options.check_order;
        let operation = self.operation();
        let meant = self.memory.contains(number, address, bytes);
        let Some(allocation) = self.memory.all.get_mut(number).filter(|_| meant) else {
            // Only what was captured can be as old: what it was given has been freed since, and is no more.
            let earlier = self.memory.freed_at(address).map(|(_, by)| by);
            return self.found(Misuse::UseAfterFree, address, bytes, earlier);
        };
        let earlier = match ordered {
            true => allocation.history.note(address, address + bytes, kind, operation, &stand),
            false => None,
        };
        let (misuse, earlier) = if allocation.gone {
            (Misuse::UseAfterFree, allocation.freed)
        } else if !allocation.ready {
            (Misuse::UseBeforeAllocation, Some(allocation.made))
        } else if ordered && allocation.at.is_some_and(|point| !stand.follows(point)) {
            (Misuse::UnorderedUse, Some(allocation.made))
        } else if let Some(access) = earlier {
            return self.found_race(address, bytes, access.operation);
        } else {
            return self.use_original(number, address, bytes, kind, &stand);
        };
        self.found(misuse, address, bytes, earlier);
    }

    /// A use of an imported pointer is one of the allocation that was exported, where that is known here.
    fn use_original(&mut self, number: u32, address: u64, bytes: u64, kind: Use, stand: &Stand) {
        let operation = self.operation();
        let Some(import) = self.memory.all.get(number) else { return };
        let Some((original, serial)) = import.original else { return };
        let there = import.physical + (address - import.address);
        let (misuse, earlier) = match self.memory.all.get_mut(original).filter(|found| found.serial == serial) {
            None => (Misuse::UseAfterFree, self.memory.freed_at(there).map(|(_, by)| by)),
            Some(found) if found.gone => (Misuse::UseAfterFree, found.freed),
            Some(found) if !found.ready => (Misuse::UseBeforeAllocation, Some(found.made)),
            Some(_) if !self.options.check_order => return,
            Some(found) if found.at.is_some_and(|point| !stand.follows(point)) => {
                (Misuse::UnorderedUse, Some(found.made))
            }
            Some(found) => match found.history.note(there, there + bytes, kind, operation, stand) {
                Some(access) => return self.found_race(address, bytes, access.operation),
                None => return,
            },
        };
        self.found(misuse, address, bytes, earlier);
    }

    /// Checks that all uses of an allocation come before its free, which is under way.
    pub(crate) fn check_free(&mut self, number: u32) {
        if !self.options.check_order {
            return;
        }
        let stand = self.stand();
        let Some(allocation) = self.memory.all.get(number) else { return };
        let unordered = allocation.history.unordered(&stand).map(|access| access.operation);
        let unmade = allocation.at.is_some_and(|point| !stand.follows(point)) || !allocation.ready;
        let (address, bytes) = (allocation.address, allocation.bytes);
        if let Some(earlier) = unordered.or(unmade.then_some(allocation.made)) {
            self.found(Misuse::UnorderedFree, address, bytes, Some(earlier));
        }
    }
}
