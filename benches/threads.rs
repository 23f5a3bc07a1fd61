//! What an allocation and a free of 4 KiB cost when several threads make them at once, each in the order of a stream of
//! its own: from one pool, and from a pool for each.

use std::{
    process::ExitCode,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use cupool::{MemPool, Stream};

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{Raw, must},
};

const BYTES: usize = 4 << 10;

fn main() -> ExitCode {
    bench::main("threads", run)
}

fn run(bench: &mut Bench) -> Result {
    for threads in bench.choose(&[1_usize, 2, 4, 8, 16], 2) {
        for (shared, pools) in [(true, "shared"), (false, "own")] {
            let streams: Vec<Stream> = (0..threads).map(|_| bench.stream()).collect::<Result<_>>()?;
            let made = if shared { 1 } else { threads };
            let made: Vec<MemPool> = (0..made).map(|_| MemPool::new(&bench.device)).collect::<cupool::Result<_>>()?;
            // With one pool, everybody has it.
            let places: Vec<(&MemPool, &Stream)> = made.iter().cycle().zip(&streams).collect();
            bench.row(
                Row::new(format!("{threads} threads, {pools}"), || streams.iter().for_each(|s| must(s.synchronize())))
                    .with("threads", threads)
                    .with("pools", pools)
                    .timed("raw", "kept", |turns| {
                        at_once(&places, turns, |pool, stream| {
                            let raw = Raw::new(pool, stream);
                            raw.free(raw.allocate(BYTES));
                        })
                    })
                    .timed("cupool", "as it comes", |turns| {
                        at_once(&places, turns, |pool, stream| drop(must(pool.alloc::<u8, _>(BYTES, stream))))
                    }),
            );
        }
    }
    Ok(())
}

/// Has a thread for each place do `work` there so many times: from when the first begins until the last is done.
fn at_once(places: &[(&MemPool, &Stream)], turns: u64, work: impl Fn(&MemPool, &Stream) + Sync) -> Duration {
    let ready = Barrier::new(places.len());
    let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let place = |&(pool, stream): &(_, _)| {
            let (ready, work) = (&ready, &work);
            scope.spawn(move || {
                ready.wait();
                let start = Instant::now();
                (0..turns).for_each(|_| work(pool, stream));
                (start, Instant::now())
            })
        };
        let threads: Vec<_> = places.iter().map(place).collect();
        threads.into_iter().map(|thread| must(thread.join().map_err(|_| "a thread panicked"))).collect()
    });
    let start = spans.iter().map(|(start, _)| *start).min();
    let end = spans.iter().map(|(_, end)| *end).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}
