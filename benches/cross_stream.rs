//! What it costs to use memory on another stream than its home: beside the events and waits of which each is made.

use std::process::ExitCode;

use cupool::{Buffer, Event, MemPool, Stream};

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{self, must},
};

fn main() -> ExitCode {
    bench::main("cross_stream", run)
}

fn run(bench: &mut Bench) -> Result {
    let (home, other) = (bench.stream()?, bench.stream()?);
    let pool = MemPool::new(&bench.device)?;
    // One for each stream, as ours has them.
    let (of_home, of_other) = (Event::new(&bench.context)?, Event::new(&bench.context)?);
    let there = || {
        raw::record(&of_home, &home);
        raw::wait(&other, &of_home);
    };
    let back = || {
        raw::record(&of_other, &other);
        raw::wait(&home, &of_other);
    };
    let row = |what: &str| {
        let drain = || {
            must(home.synchronize());
            must(other.synchronize());
        };
        Row::new(what, drain).with("what", what).most(100)
    };

    let mut buffer: Buffer<u8, &Stream> = pool.alloc(1 << 20, &home)?;
    bench.row(
        row("loan")
            .raw("record and wait, twice", || {
                there();
                back();
            })
            .cupool("as it comes", || drop(must(buffer.on(&other)))),
    );
    bench.row(
        row("loan for reading")
            .raw("record and wait, twice", || {
                there();
                back();
            })
            .cupool("as it comes", || drop(must(buffer.read_on(&other)))),
    );

    // There and back again, which are two moves.
    let mut moved = Some(buffer);
    let move_to = |buffer: Buffer<u8, _>, stream| must(buffer.move_to(stream).map_err(|(error, _)| error));
    bench.row(
        row("move")
            .per(2)
            .raw("record and wait", || {
                there();
                back();
            })
            .cupool("as it comes", || moved = moved.take().map(|buffer| move_to(move_to(buffer, &other), &home))),
    );

    for bytes in [1 << 10, 1 << 20] {
        let source: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, &home)?;
        let theirs: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, &other)?;
        let mut ours: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, &other)?;
        bench.row(
            row(&format!("copy between homes, {}", bench::bytes(bytes)))
                .with("bytes", bytes)
                .raw("record and wait, copy, record and wait", || {
                    there();
                    // SAFETY: both places hold so many bytes, and outlive the row, which drains the streams.
                    unsafe { raw::copy(&other, theirs.as_raw(), source.as_raw(), bytes) };
                    back();
                })
                .cupool("as it comes", || must(ours.copy_from(source.as_slice()))),
        );
    }
    Ok(())
}
