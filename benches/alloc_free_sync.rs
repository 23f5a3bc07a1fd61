//! What an allocation, a free and a synchronisation cost together, with the driver's own release threshold of 0 and
//! with memory that the pool keeps.

use std::process::ExitCode;

use cupool::{MemPool, MemPoolProperties};

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{self, Raw, must},
};

fn main() -> ExitCode {
    bench::main("alloc_free_sync", run)
}

fn run(bench: &mut Bench) -> Result {
    let stream = bench.stream()?;
    for (threshold, of_raw, of_ours) in [(0, "threshold 0", "threshold 0"), (u64::MAX, "kept", "as it comes")] {
        let properties = MemPoolProperties::new().release_threshold(threshold);
        let pool = MemPool::with_properties(&bench.device, &properties)?;
        let pairs = Raw::new(&pool, &stream);
        for bytes in [10, 4 << 10, 64 << 10, 1 << 20, 64 << 20, 1 << 30] {
            bench.row(
                Row::new(format!("{}, {of_raw}", bench::bytes(bytes)), || {})
                    .with("bytes", bytes)
                    .raw(of_raw, || {
                        pairs.free(pairs.allocate(bytes));
                        raw::synchronize_stream(&stream);
                    })
                    .cupool(of_ours, || {
                        drop(must(pool.alloc::<u8, _>(bytes, &stream)));
                        must(stream.synchronize());
                    }),
            );
        }
    }
    Ok(())
}
