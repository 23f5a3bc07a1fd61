//! What a buffer costs over the two driver calls it stands for, by size, from a pool that keeps its memory.

use std::process::ExitCode;

use cupool::MemPool;

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{Raw, must},
};

fn main() -> ExitCode {
    bench::main("alloc_free", run)
}

fn run(bench: &mut Bench) -> Result {
    let stream = bench.stream()?;
    let pool = MemPool::new(&bench.device)?;
    let raw = Raw::new(&pool, &stream);
    for bytes in [10, 4 << 10, 64 << 10, 1 << 20, 64 << 20, 1 << 30] {
        bench.row(
            Row::new(bench::bytes(bytes), || must(stream.synchronize()))
                .with("bytes", bytes)
                .raw("kept", || raw.free(raw.allocate(bytes)))
                .cupool("as it comes", || drop(must(pool.alloc::<u8, _>(bytes, &stream)))),
        );
    }
    Ok(())
}
