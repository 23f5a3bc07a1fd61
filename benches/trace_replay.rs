//! Replays what real programs asked of their allocator, by raw calls and by way of `Buffer`: what an event costs, and how
//! much memory the pool holds for what lives.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use cupool::{Buffer, MemPool, MemPoolUsage, Stream, cuda_sys::CUdeviceptr_v2};
use serde_json::json;
use traces::{Event, Trace};

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{Raw, must},
};

/// How many points of a trace are looked at closely, at most.
const POINTS: usize = 400;

fn main() -> ExitCode {
    bench::main("trace_replay", run)
}

fn run(bench: &mut Bench) -> Result {
    for mut trace in Trace::recorded()? {
        if bench.is_trial() {
            trace.events.truncate(200);
            trace.events.iter_mut().for_each(shrink);
        }
        let streams: Vec<Stream> = (0..trace.streams).map(|_| bench.stream()).collect::<Result<_>>()?;
        let pool = MemPool::new(&bench.device)?;
        let ways = [("raw", "kept"), ("cupool", "as it comes")];
        bench.row(
            Row::new(trace.name.clone(), || wait_for(&streams))
                .with("trace", trace.name.clone())
                .with("what", "time per event")
                .per(trace.events.len() as u64)
                .timed("raw", "kept", |turns| replays(turns, || RawReplay::new(&pool, &streams, &trace), &trace))
                .timed("cupool", "as it comes", |turns| {
                    replays(turns, || BufferReplay::new(&pool, &streams, &trace), &trace)
                }),
        );
        for (who, setting) in ways {
            // One that has held nothing so far.
            let mut pool = MemPool::new(&bench.device)?;
            pool.reset_peaks()?;
            let looks = if who == "raw" {
                look(&mut RawReplay::new(&pool, &streams, &trace), &trace, &pool)?
            } else {
                look(&mut BufferReplay::new(&pool, &streams, &trace), &trace, &pool)?
            };
            wait_for(&streams);
            report(bench, &trace, who, setting, &looks, pool.usage()?);
        }
    }
    Ok(())
}

/// The simulated device has little memory.
fn shrink(event: &mut Event) {
    if let Event::Allocate { bytes, .. } = event {
        *bytes = bytes.div_ceil(1024);
    }
}

fn wait_for(streams: &[Stream]) {
    streams.iter().for_each(|stream| must(stream.synchronize()));
}

/// A trace on its way.
trait Replay {
    fn perform(&mut self, event: Event);

    /// Frees what the trace leaves.
    fn finish(&mut self);
}

struct RawReplay<'a> {
    streams: Vec<Raw<'a>>,
    live: Vec<CUdeviceptr_v2>,
}

impl<'a> RawReplay<'a> {
    fn new(pool: &'a MemPool, streams: &'a [Stream], trace: &Trace) -> Self {
        let streams = streams.iter().map(|stream| Raw::new(pool, stream)).collect();
        Self { streams, live: Vec::with_capacity(trace.events.len()) }
    }
}

impl Replay for RawReplay<'_> {
    #[inline(always)]
    fn perform(&mut self, event: Event) {
        match event {
            Event::Allocate { bytes, stream, .. } => {
                let address = self.streams.get(stream as usize).map(|stream| stream.allocate(bytes as usize));
                self.live.push(address.unwrap_or(0));
            }
            Event::Free { id, stream } => {
                let address = self.live.get_mut(id as usize).map(std::mem::take);
                if let (Some(stream), Some(address)) = (self.streams.get(stream as usize), address) {
                    stream.free(address);
                }
            }
        }
    }

    fn finish(&mut self) {
        if let Some(stream) = self.streams.first() {
            self.live.iter().filter(|address| **address != 0).for_each(|address| stream.free(*address));
        }
        self.live.clear();
    }
}

struct BufferReplay<'a> {
    pool: &'a MemPool,
    streams: Vec<&'a Stream>,
    live: Vec<Option<Buffer<u8, &'a Stream>>>,
}

impl<'a> BufferReplay<'a> {
    fn new(pool: &'a MemPool, streams: &'a [Stream], trace: &Trace) -> Self {
        Self { pool, streams: streams.iter().collect(), live: Vec::with_capacity(trace.events.len()) }
    }
}

impl Replay for BufferReplay<'_> {
    #[inline(always)]
    fn perform(&mut self, event: Event) {
        match event {
            Event::Allocate { bytes, stream, .. } => {
                let stream = self.streams.get(stream as usize);
                self.live.push(stream.map(|stream| must(self.pool.alloc(bytes as usize, *stream))));
            }
            // A buffer is freed in its home stream's order. In none of the traces is it another's.
            Event::Free { id, .. } => drop(self.live.get_mut(id as usize).map(Option::take)),
        }
    }

    fn finish(&mut self) {
        self.live.clear();
    }
}

/// How long so many replays take, without what comes before the first event and after the last.
fn replays<R: Replay>(turns: u64, begin: impl Fn() -> R, trace: &Trace) -> Duration {
    let mut elapsed = Duration::ZERO;
    for _ in 0..turns {
        let mut replay = begin();
        let start = Instant::now();
        trace.events.iter().for_each(|event| replay.perform(*event));
        elapsed += start.elapsed();
        replay.finish();
    }
    elapsed
}

/// Replays once, and looks at what the pool holds now and then: the index of the event before, and bytes.
fn look(replay: &mut impl Replay, trace: &Trace, pool: &MemPool) -> Result<Vec<(usize, u64)>> {
    let mut points = points(trace).into_iter().peekable();
    let mut looks = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        replay.perform(*event);
        if points.next_if_eq(&index).is_some() {
            looks.push((index, pool.usage()?.reserved));
        }
    }
    replay.finish();
    Ok(looks)
}

/// Where to look: in each stretch of the trace where most lives.
fn points(trace: &Trace) -> Vec<usize> {
    let live: Vec<(usize, u64)> = trace.live().enumerate().collect();
    let stretch = live.len().div_ceil(POINTS).max(1);
    let most = |stretch: &[(usize, u64)]| stretch.iter().max_by_key(|(_, live)| *live).map(|(index, _)| *index);
    live.chunks(stretch).filter_map(most).collect()
}

fn report(bench: &Bench, trace: &Trace, who: &str, setting: &str, looks: &[(usize, u64)], usage: MemPoolUsage) {
    let line = |what: &str| {
        json!({
            "bench": "trace_replay",
            "who": who,
            "setting": setting,
            "parameters": { "trace": trace.name, "what": what },
            "unit": "bytes",
            "source": "benches/trace_replay.rs",
        })
    };
    let (live, reserved) = (trace.peak_live(), usage.reserved_high);
    for (what, bytes) in [("peak live", live), ("peak reserved", reserved)] {
        let mut line = line(what);
        if let Some(fields) = line.as_object_mut() {
            fields.extend(["value", "low", "high"].map(|field| (field.to_owned(), bytes.into())));
        }
        bench.note(&line);
    }
    let all: Vec<u64> = trace.live().collect();
    let mut line = line("series");
    if let Some(fields) = line.as_object_mut() {
        let event: Vec<usize> = looks.iter().map(|(index, _)| *index).collect();
        let live: Vec<u64> = event.iter().filter_map(|index| all.get(*index).copied()).collect();
        let reserved: Vec<u64> = looks.iter().map(|(_, reserved)| *reserved).collect();
        fields.insert("series".into(), json!({ "event": event, "live": live, "reserved": reserved }));
    }
    bench.note(&line);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let ratio = reserved as f64 / live as f64;
    println!("    {who}: peak live {:.1} MiB, peak reserved {:.1} MiB ({ratio:.3})", mib(live), mib(reserved));
}
