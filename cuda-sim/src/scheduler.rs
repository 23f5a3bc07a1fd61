//! Runs enqueued work, in an order that streams and events allow and the seed chooses.

use cuda_sys::CUresult;
use parking_lot::MutexGuard;

use crate::{
    checker::Misuse,
    fill,
    history::Use,
    order::Running,
    past::{Mark, Stand},
    signal,
    slots::{self, Call, Callback},
    state::{Answer, State},
    work::{HostFunction, Op, Point, QueueId, Work},
};

/// What one step came to.
enum Step {
    Ran,
    /// What could run next is a host function that another thread is in.
    Elsewhere,
    /// Another process is waited for.
    Abroad,
    Stuck,
}

/// Runs work until the point is reached.
pub(crate) fn wait(call: &mut Call, point: Point) -> Answer {
    let (entry, epoch) = (call.entry, call.epoch);
    while !call.queues.done(point) {
        match step(call, point.queue) {
            Step::Ran => {}
            Step::Elsewhere => match slots::slot(call.slot.into()) {
                Some(slot) => slot.progress.wait(call),
                None => return Err(CUresult::CUDA_ERROR_UNKNOWN),
            },
            Step::Abroad => signal::rest(call),
            Step::Stuck => {
                call.entry = entry;
                call.found(Misuse::Deadlock, 0, 0, None);
                return Err(CUresult::CUDA_ERROR_UNKNOWN);
            }
        }
        if call.shut || call.epoch != epoch {
            return Err(CUresult::CUDA_ERROR_DEINITIALIZED);
        }
    }
    call.entry = entry;
    Ok(())
}

/// Waits for all the points.
pub(crate) fn wait_all(call: &mut Call, points: &[Point]) -> Answer {
    points.iter().try_for_each(|point| wait(call, *point))
}

/// Makes some progress towards the point, and says whether any was made and there is more to do.
pub(crate) fn advance(call: &mut Call, point: Point) -> bool {
    let entry = call.entry;
    let ran = !call.queues.done(point) && matches!(step(call, point.queue), Step::Ran);
    call.entry = entry;
    ran && !call.queues.done(point)
}

/// Makes some progress on the queue, and says whether the point is reached.
pub(crate) fn poll(call: &mut Call, point: Point) -> Result<bool, CUresult> {
    if call.queues.done(point) {
        return Ok(true);
    }
    let entry = call.entry;
    step(call, point.queue);
    call.entry = entry;
    Ok(call.queues.done(point))
}

/// Runs one piece of work: one that `wanted` depends on or, by the seed's choice, any.
fn step(call: &mut Call, wanted: QueueId) -> Step {
    let choosy = call.options.seed == 0 || call.rng.coin();
    if !choosy {
        let busy = call.queues.busy.len();
        let first = call.rng.below(busy);
        for turn in 0..busy {
            let candidate = call.queues.busy.get((first + turn) % busy.max(1)).copied();
            if let Some(queue) = candidate
                && call.is_runnable(queue)
            {
                return run(call, queue);
            }
        }
    }
    let mut queue = wanted;
    // Waits point backwards in the order of enqueueing, so this ends; the bound keeps a mistake from hanging.
    for _ in 0..=call.queues.busy.len() {
        let Some(next) = call.queues.get(queue) else { return Step::Stuck };
        if next.running {
            return Step::Elsewhere;
        }
        match next.ops.front() {
            Some(Op { work: Work::Wait(point), .. }) if !call.queues.done(*point) => queue = point.queue,
            Some(Op { work: Work::WaitSignal(signal, count), .. }) if !signal.is_past(*count) => return Step::Abroad,
            Some(_) => return run(call, queue),
            None => return Step::Stuck,
        }
    }
    Step::Stuck
}

fn run(call: &mut Call, queue: QueueId) -> Step {
    let Some(Op { operation, work, past }) = call.queues.pop(queue) else { return Step::Stuck };
    let point = call.queues.next(queue);
    if let Work::CallHost(function) = work {
        if let Some(queue) = call.queues.get_mut(queue) {
            queue.running = true;
        }
        // The function can tell other threads that everything before it is done.
        call.host_saw(&Mark { point, past });
        call.callbacks += 1;
        let epoch = call.epoch;
        MutexGuard::unlocked(call, || call_host(function));
        if call.epoch != epoch {
            return Step::Ran;
        }
        if let Some(slot) = slots::slot(call.slot.into()) {
            slot.progress.notify_all();
        }
    } else {
        call.running = Some(Running { operation, stand: Stand { point: Some(point), past } });
        call.perform(&work);
    }
    call.clock += 1_000;
    call.let_go(&work);
    call.queues.complete(queue);
    call.running = None;
    Step::Ran
}

fn call_host(host: HostFunction) {
    if let Some(function) = host.function {
        slots::in_callback(Callback::HostFunction, || {
            // SAFETY: whoever enqueued the function promised that it may be called with this pointer, once, when its
            // turn in the stream comes.
            unsafe { function(host.data.0.cast()) }
        });
    }
}

impl State {
    fn is_runnable(&self, queue: QueueId) -> bool {
        match self.queues.get(queue) {
            Some(queue) if queue.running => false,
            Some(queue) => match queue.ops.front() {
                Some(Op { work: Work::Wait(point), .. }) => self.queues.done(*point),
                Some(Op { work: Work::WaitSignal(signal, count), .. }) => signal.is_past(*count),
                Some(_) => true,
                None => false,
            },
            None => false,
        }
    }

    fn perform(&mut self, work: &Work) {
        match work {
            Work::Wait(_) | Work::WaitSignal(..) | Work::CallHost(_) | Work::Nothing => {}
            Work::Signal(signal, count) => signal.pass(*count),
            Work::Record { event, serial } => self.recorded(*event, *serial),
            Work::Allocate(allocation) => self.allocation_runs(*allocation),
            Work::Free(allocation) => self.free_runs(*allocation),
            Work::Fill { address, allocation, bytes, pattern, width } => {
                self.run_fill(*address, *allocation, *bytes, *pattern, *width);
            }
            // It changes nothing that anybody could see: reading comes closest.
            Work::Prefetch { address, allocation, bytes } => {
                self.use_memory(*allocation, *address, *bytes, Use::Read);
            }
            Work::FillHost { pointer, range, bytes, pattern, width } => {
                self.use_pinned(*range, pointer.address(), *bytes, Use::Write);
                fill::fill_host(pointer.0, *bytes as usize, *pattern, *width);
            }
            Work::Copy { target, source, bytes } => self.run_copy(target, source, *bytes),
            Work::Launch(launch) => self.run_kernel(launch),
        }
    }
}
