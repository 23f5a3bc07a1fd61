//! Runs programs: one for each seed, as many as are asked for.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{env, thread};

use cupool::MemPool;
use cupool_sim::{Finding, Live, Simulator, Symbol};

use super::{
    choices::Choices,
    controls::{Rule, leave_out},
    world::{Ground, World},
};

/// What became of a program.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) findings: Vec<Finding>,
    pub(crate) wrong: Option<String>,
    pub(crate) calls: Vec<Symbol>,
    /// Allocations that nothing will free.
    pub(crate) leaked: usize,
    /// Pools that were dropped, and wait for memory to be free.
    pub(crate) pools: usize,
    /// Events that the context may keep, besides those of pinned memory.
    pub(crate) marks: u64,
    /// What was alive when all was dropped but the context, and after that.
    pub(crate) left: Option<Live>,
    pub(crate) end: Live,
}

/// How to run a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    pub(crate) without: Option<Rule>,
    pub(crate) log: bool,
}

impl Program {
    pub(crate) fn run(self) -> Outcome {
        let mut choices = Choices::new(self.seed);
        // The driver makes choices of its own; one program in four runs as late as it can.
        let scheduling = if choices.once_in(4) { 0 } else { choices.next() };
        let late = choices.once_in(3);
        // Everything may end while work is still to be done.
        let waits = !choices.once_in(4);
        let options = Simulator::builder().seed(scheduling).pageable_async(late).record_calls(self.log);
        let ground = Ground::new(options.build(), &mut choices);
        let mut world = World::new(&ground, choices, self.without);
        while world.operations < self.steps && world.wrong.is_none() {
            world.step(0);
        }
        let (leaked, operations, marks, wrong) = world.end();
        let Ground { simulator, context, streams } = ground;
        drop(streams);
        let mut pools = 0;
        let left = if waits {
            context.synchronize().unwrap();
            context.trim_managed().unwrap();
            context.drop_retired().unwrap();
            pools = MemPool::destroy_dropped(context.driver()).unwrap();
            Some(simulator.live())
        } else {
            None
        };
        let without = leave_out(&simulator, Rule::ContextEnd, self.without);
        drop(context);
        drop(without);
        let (findings, calls, end) = (simulator.findings(), simulator.calls(), simulator.live());
        Outcome { operations, findings, wrong, calls, leaked, pools, marks, left, end }
    }
}

impl Outcome {
    /// What is not as it should be, if anything.
    pub(crate) fn trouble(&self) -> Option<String> {
        if let Some(finding) = self.findings.first() {
            return Some(format!("{} findings, the first: {finding}", self.findings.len()));
        }
        if let Some(wrong) = &self.wrong {
            return Some(wrong.clone());
        }
        if let Some(live) = self.left
            && !self.is_all_that_is_left(live)
        {
            return Some(format!("left behind, with {} allocations leaked: {live:?}", self.leaked));
        }
        let Live { host_allocations, registered_ranges, primary_retains, events, graphs, graph_execs, .. } = self.end;
        let end = (host_allocations, registered_ranges, primary_retains, events, graphs, graph_execs);
        (end != (0, 0, 0, 0, 0, 0)).then(|| format!("left at the end: {:?}", self.end))
    }
}

impl Outcome {
    fn is_all_that_is_left(&self, live: Live) -> bool {
        let Live { allocations, streams, pools, pending_operations, pushed_contexts, modules, .. } = live;
        // What is left of events belongs to the context: one for each block of pinned memory, and marks.
        let marks = live.events - live.host_allocations;
        let left = (allocations, streams, pending_operations, pushed_contexts, modules);
        // What is leaked keeps its pool, and an import its imported one too.
        left == (self.leaked, 0, 0, 0, 0) && (self.pools..=self.leaked).contains(&pools) && marks as u64 <= self.marks
    }
}

/// A number from the environment.
pub(crate) fn setting(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")),
        Err(_) => otherwise,
    }
}

/// Runs `work` for every seed on all cores, until one answers something; answers the first seed that did.
pub(crate) fn search<R: Send>(first: u64, count: u64, work: impl Fn(u64) -> Option<R> + Sync) -> Option<(u64, R)> {
    let next = AtomicU64::new(first);
    let end = AtomicU64::new(first + count);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let one = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end.load(Relaxed) {
                return None;
            }
            if let Some(result) = work(seed) {
                end.fetch_min(seed, Relaxed);
                return Some((seed, result));
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one)).collect();
        let found = threads.into_iter().filter_map(|thread| thread.join().unwrap());
        found.min_by_key(|(seed, _)| *seed)
    })
}
