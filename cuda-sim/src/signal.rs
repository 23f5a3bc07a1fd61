//! Events that several processes have: two counters in memory that they share, and a thread that works towards what
//! others may wait for.
//!
//! A record of such an event takes the next number, and says so to all once it has run. A wait takes the last number
//! that was given out, and is over once that has been said.

use core::sync::atomic::Ordering::{AcqRel, Acquire};
use std::{thread, time::Duration};

use parking_lot::MutexGuard;

use crate::{
    scheduler,
    shared::{SharedMemory, WORDS},
    slots::{self, Call},
    state::State,
    work::Point,
};

/// How long it takes to notice what another process has done, at most.
const NAP: Duration = Duration::from_micros(100);

/// The counters of one event, and its serial number in its own simulator.
#[derive(Debug)]
pub(crate) struct Signal(SharedMemory, u64);

const GIVEN: u64 = 0;
const PASSED: u64 = 1;
const COUNTERS: u64 = 2;

impl Signal {
    /// For a new event.
    pub(crate) fn new(header: [u64; WORDS]) -> Option<Self> {
        let [_, _, serial, ..] = header;
        Some(Self(SharedMemory::new(header, 8 * COUNTERS)?, serial))
    }

    /// That of another process, with what its header says.
    pub(crate) fn of_process(process: u32, file: u32) -> Option<(Self, [u64; WORDS])> {
        let (memory, header) = SharedMemory::of_process(process, file)?;
        memory.at(0, 8 * COUNTERS)?;
        let [_, _, serial, ..] = header;
        Some((Self(memory, serial), header))
    }

    /// The number under which this process has it open.
    pub(crate) fn number(&self) -> u32 {
        self.0.number()
    }

    pub(crate) const fn serial(&self) -> u64 {
        self.1
    }

    /// A number for a record.
    pub(crate) fn next(&self) -> u64 {
        self.0.counter(GIVEN).map_or(0, |given| given.fetch_add(1, AcqRel) + 1)
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.0.counter(GIVEN).map_or(0, |given| given.load(Acquire))
    }

    /// A record has run.
    pub(crate) fn pass(&self, count: u64) {
        if let Some(passed) = self.0.counter(PASSED) {
            passed.fetch_max(count, AcqRel);
        }
    }

    pub(crate) fn is_past(&self, count: u64) -> bool {
        self.0.counter(PASSED).is_none_or(|passed| passed.load(Acquire) >= count)
    }
}

/// Lets others in for a moment.
pub(crate) fn rest(call: &mut Call) {
    MutexGuard::unlocked(call, || thread::sleep(NAP));
}

impl State {
    /// Another process may wait for the point: somebody has to get there.
    pub(crate) fn work_towards(&mut self, point: Point) {
        self.signals.push(point);
        if !self.signalling {
            self.signalling = true;
            let (slot, epoch) = (self.slot, self.epoch);
            thread::spawn(move || work(slot, epoch));
        }
    }
}

/// Until there is nothing left to work towards, or the simulator has ended.
fn work(slot: u8, epoch: u16) {
    let Some(slot) = slots::slot(slot.into()) else { return };
    loop {
        {
            let mut call = slot.state.lock();
            if call.epoch != epoch || call.shut {
                return;
            }
            for point in call.signals.clone() {
                while scheduler::advance(&mut call, point) {
                    if call.epoch != epoch {
                        return;
                    }
                }
            }
            let State { signals, queues, .. } = &mut *call;
            signals.retain(|point| !queues.done(*point));
            if signals.is_empty() {
                call.signalling = false;
                return;
            }
        }
        thread::sleep(NAP);
    }
}
