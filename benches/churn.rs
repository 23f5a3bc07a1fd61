//! What an allocation and a free cost among many that live: a random one is freed, another allocated in its place.

use std::process::ExitCode;

use cupool::{Buffer, MemPool, Stream, cuda_sys::CUdeviceptr_v2};

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{Raw, must},
};

/// Sizes are 2 to the power of 8 to 22.
fn size(random: &mut fastrand::Rng) -> usize {
    1 << random.u32(8..=22)
}

/// The same for both ways.
const SEED: u64 = 1;

fn main() -> ExitCode {
    bench::main("churn", run)
}

fn run(bench: &mut Bench) -> Result {
    let stream = bench.stream()?;
    for live in bench.choose(&[100, 1_000, 10_000], 100) {
        // A pool for each way: how full one is must not matter to the other.
        let pools = [MemPool::new(&bench.device)?, MemPool::new(&bench.device)?];
        let [pool, ours] = &pools;

        let raw = Raw::new(pool, &stream);
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut addresses: Vec<CUdeviceptr_v2> = (0..live).map(|_| raw.allocate(size(&mut random))).collect();
        let mut again = fastrand::Rng::with_seed(SEED);
        let alloc = |bytes| must(ours.alloc::<u8, _>(bytes, &stream));
        let mut buffers: Vec<Buffer<u8, &Stream>> = (0..live).map(|_| alloc(size(&mut again))).collect();

        bench.row(
            Row::new(format!("{live} live"), || must(stream.synchronize()))
                .with("live", live)
                .raw("kept", || {
                    if let Some(address) = random.choice(addresses.iter_mut()) {
                        raw.free(*address);
                        *address = raw.allocate(size(&mut random));
                    }
                })
                .cupool("as it comes", || {
                    let victim = again.usize(..buffers.len());
                    drop(buffers.swap_remove(victim));
                    buffers.push(alloc(size(&mut again)));
                }),
        );
        addresses.into_iter().for_each(|address| raw.free(address));
    }
    Ok(())
}
