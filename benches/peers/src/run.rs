//! The workloads, and the turns that are taken at them.

use std::{sync::Barrier, thread, time::Instant};

use serde_json::json;

use crate::{
    peer::{Event, Outcome, Peer, Step},
    report::Report,
    with_cudarc::DefaultPool,
};

/// Every peer has so many streams.
pub(crate) const STREAMS: u32 = 16;

/// One way of using a peer.
pub(crate) struct Contestant {
    pub(crate) who: String,
    pub(crate) setting: String,
    pub(crate) peer: Box<dyn Peer>,
    /// Another peer of that kind, which holds nothing yet.
    fresh: Box<dyn Fn() -> Outcome<Box<dyn Peer>>>,
    /// The threshold of the device's default pool while it has its turn, if that is where its memory comes from.
    threshold: Option<u64>,
}

impl Contestant {
    pub(crate) fn new(who: &str, setting: &str, fresh: impl Fn() -> Outcome<Box<dyn Peer>> + 'static) -> Outcome<Self> {
        let (who, setting) = (who.to_owned(), setting.to_owned());
        Ok(Self { who, setting, peer: fresh()?, fresh: Box::new(fresh), threshold: None })
    }

    /// One whose memory comes from the device's default pool.
    pub(crate) fn with_threshold(mut self, threshold: u64) -> Self {
        self.threshold = Some(threshold);
        self
    }
}

/// How much is done.
struct Runner<'a> {
    contestants: &'a [Contestant],
    default_pool: &'a DefaultPool,
    report: &'a Report,
    rounds: usize,
}

pub(crate) fn everything(
    contestants: &[Contestant],
    default_pool: &DefaultPool,
    report: &Report,
    quick: bool,
) -> Outcome<()> {
    let runner = Runner { contestants, default_pool, report, rounds: if quick { 5 } else { 31 } };
    for synchronise in [false, true] {
        for bytes in [10, 4 << 10, 1 << 20, 64 << 20] {
            runner.pairs(bytes, synchronise)?;
        }
    }
    for live in [100, 1_000, 10_000] {
        runner.churn(live)?;
    }
    for threads in [1, 2, 4, 8, 16] {
        runner.threads(threads)?;
    }
    for trace in traces::Trace::recorded().map_err(|error| error.to_string())? {
        runner.replay(&trace)?;
    }
    Ok(())
}

impl Runner<'_> {
    fn pairs(&self, bytes: u64, synchronise: bool) -> Outcome<()> {
        let bench = if synchronise { "alloc_free_sync" } else { "alloc_free" };
        self.measure(bench, &json!({"bytes": bytes}), |peer, count| peer.pairs(0, bytes, count, synchronise))
    }

    fn churn(&self, live: u32) -> Outcome<()> {
        let mut numbers = Numbers(1);
        let mut bytes = || 1 << (8 + numbers.below(15));
        let filled: Vec<u64> = (0..live).map(|_| bytes()).collect();
        for contestant in self.contestants {
            self.begin(contestant)?;
            contestant.peer.fill(&filled).map_err(|error| format!("{}: {error}", contestant.who))?;
            contestant.peer.drain()?;
        }
        let steps: Vec<Step> =
            (0..4000).map(|_| Step { bytes: 1 << (8 + numbers.below(15)), block: numbers.below(live) }).collect();
        let result = self.measure("churn", &json!({"live": live}), |peer, count| {
            peer.churn(&steps[..(count as usize).min(steps.len())])
        });
        for contestant in self.contestants {
            contestant.peer.empty()?;
            contestant.peer.drain()?;
        }
        result
    }

    /// Every thread allocates and frees on a stream of its own, from one pool.
    fn threads(&self, threads: u32) -> Outcome<()> {
        self.measure("threads", &json!({"threads": threads, "pools": "shared"}), |peer, count| {
            let start = Barrier::new(threads as usize + 1);
            thread::scope(|scope| {
                let all: Vec<_> = (0..threads)
                    .map(|stream| {
                        let start = &start;
                        scope.spawn(move || {
                            let attached = peer.attach();
                            start.wait();
                            attached?;
                            peer.pairs(stream, 4 << 10, count, false)
                        })
                    })
                    .collect();
                start.wait();
                let begun = Instant::now();
                for thread in all {
                    thread.join().map_err(|_| "a thread panicked")??;
                }
                Ok(begun.elapsed().as_nanos() as f64)
            })
        })
    }

    fn replay(&self, trace: &traces::Trace) -> Outcome<()> {
        let mut blocks = 0;
        let events: Vec<Event> = trace
            .events
            .iter()
            .map(|event| match *event {
                traces::Event::Allocate { id, bytes, stream } => {
                    blocks = blocks.max(id + 1);
                    // Nothing is what a free looks like.
                    Event { bytes: bytes.max(1), block: id, stream }
                }
                traces::Event::Free { id, stream } => Event { bytes: 0, block: id, stream },
            })
            .collect();
        let rounds = self.rounds.min(5);
        let mut measured: Vec<Vec<f64>> = vec![Vec::new(); self.contestants.len()];
        for round in 0..=rounds {
            for at in turns(self.contestants.len(), round) {
                let contestant = &self.contestants[at];
                self.begin(contestant)?;
                let time = contestant.peer.replay(&events, blocks, None)?;
                contestant.peer.drain()?;
                if round > 0 {
                    measured[at].push(time / events.len() as f64);
                }
            }
        }
        let all: Vec<&Contestant> = self.contestants.iter().collect();
        self.report.times("trace_replay", &json!({"trace": trace.name, "what": "time per event"}), &all, &measured)?;
        for contestant in self.contestants {
            self.begin(contestant)?;
            // What is shared by the process holds what it did before.
            contestant.peer.trim()?;
            let fresh = (contestant.fresh)()?;
            fresh.attach()?;
            let mut reserved = vec![0; events.len()];
            fresh.replay(&events, blocks, Some(&mut reserved))?;
            fresh.drain()?;
            self.held(trace, contestant, &reserved)?;
            fresh.trim()?;
        }
        Ok(())
    }

    /// What was held beside what was live.
    fn held(&self, trace: &traces::Trace, contestant: &Contestant, reserved: &[u64]) -> Outcome<()> {
        let peak = reserved.iter().copied().max().unwrap_or(0);
        println!(
            "    {:<38} holds {:>7.1} MiB at most, {:.3} of what is live",
            format!("{}, {}", contestant.who, contestant.setting),
            peak as f64 / f64::from(1 << 20),
            peak as f64 / trace.peak_live() as f64,
        );
        let mut sizes = std::collections::HashMap::new();
        let mut now = 0_u64;
        let live: Vec<u64> = trace
            .events
            .iter()
            .map(|event| {
                match *event {
                    traces::Event::Allocate { id, bytes, .. } => {
                        sizes.insert(id, bytes);
                        now += bytes;
                    }
                    traces::Event::Free { id, .. } => now -= sizes.remove(&id).unwrap_or(0),
                }
                now
            })
            .collect();
        let points: Vec<usize> = (0..live.len()).step_by(live.len().div_ceil(400).max(1)).collect();
        let taken = |of: &[u64]| points.iter().map(|at| of[*at]).collect::<Vec<_>>();
        let line = |what: &str| {
            json!({
                "bench": "trace_replay", "who": contestant.who, "setting": contestant.setting,
                "parameters": {"trace": trace.name, "what": what}, "unit": "bytes", "source": "benches/peers",
            })
        };
        for (what, value) in [("peak reserved", peak), ("peak live", trace.peak_live())] {
            let mut line = line(what);
            line["value"] = value.into();
            self.report.line(&line)?;
        }
        let mut line = line("series");
        line["series"] = json!({"event": points, "live": taken(&live), "reserved": taken(reserved)});
        self.report.line(&line)
    }

    /// Batches in turns: the first round is thrown away, and each batch begins warm and ends drained.
    fn measure(
        &self,
        bench: &str,
        parameters: &serde_json::Value,
        work: impl Fn(&dyn Peer, u32) -> Outcome<f64>,
    ) -> Outcome<()> {
        let mut counts = Vec::new();
        for contestant in self.contestants {
            self.begin(contestant)?;
            let failed = |error| format!("{}, {}: {error}", contestant.who, contestant.setting);
            work(&*contestant.peer, 1).map_err(failed)?;
            let each = work(&*contestant.peer, 4).map_err(failed)? / 4.0;
            contestant.peer.drain()?;
            counts.push((2e6 / each.max(1.0)).clamp(1.0, 2000.0) as u32);
        }
        let mut measured: Vec<Vec<f64>> = vec![Vec::new(); self.contestants.len()];
        for round in 0..=self.rounds {
            for at in turns(self.contestants.len(), round) {
                let (contestant, count) = (&self.contestants[at], counts[at]);
                self.begin(contestant)?;
                work(&*contestant.peer, count.div_ceil(50))?;
                let time = work(&*contestant.peer, count)?;
                contestant.peer.drain()?;
                if round > 0 {
                    measured[at].push(time / f64::from(count));
                }
            }
        }
        let all: Vec<&Contestant> = self.contestants.iter().collect();
        self.report.times(bench, parameters, &all, &measured)
    }

    fn begin(&self, contestant: &Contestant) -> Outcome<()> {
        contestant.peer.attach()?;
        contestant.threshold.map_or(Ok(()), |threshold| self.default_pool.set_threshold(threshold))
    }
}

/// The order of a round: another each time, so that nobody always comes after the same one.
fn turns(len: usize, round: usize) -> Vec<usize> {
    let mut numbers = Numbers(round as u64 + 1);
    let mut order: Vec<usize> = (0..len).collect();
    for at in (1..len).rev() {
        order.swap(at, numbers.below(at as u32 + 1) as usize);
    }
    order
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}
