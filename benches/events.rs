//! What events and waits cost on idle streams, by the driver's calls and by way of `Event` and `Stream`.

use std::process::ExitCode;

use cupool::Event;

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{self, must},
};

fn main() -> ExitCode {
    bench::main("events", run)
}

fn run(bench: &mut Bench) -> Result {
    let (stream, other) = (bench.stream()?, bench.stream()?);
    let event = Event::new(&bench.context)?;
    event.record(&stream)?;
    stream.synchronize()?;
    let functions = bench.driver.functions();
    let drain = || {
        must(stream.synchronize());
        must(other.synchronize());
    };
    let row = |what: &str| Row::new(what, drain).with("what", what).most(500);
    bench.row(
        row("record")
            .raw("as it comes", || raw::record(&event, &stream))
            .cupool("as it comes", || must(event.record(&stream))),
    );
    bench.row(
        row("wait").raw("as it comes", || raw::wait(&other, &event)).cupool("as it comes", || must(other.wait(&event))),
    );
    bench.row(
        row("query")
            .raw("as it comes", || raw::query(functions, &event))
            .cupool("as it comes", || assert!(must(event.query()))),
    );
    bench.row(
        row("synchronise")
            .raw("as it comes", || raw::synchronize(functions, &event))
            .cupool("as it comes", || must(event.synchronize())),
    );
    bench.row(
        row("query of a stream")
            .raw("as it comes", || raw::query_stream(&stream))
            .cupool("as it comes", || assert!(must(stream.query()))),
    );
    bench.row(
        row("synchronise a stream")
            .raw("as it comes", || raw::synchronize_stream(&stream))
            .cupool("as it comes", || must(stream.synchronize())),
    );
    Ok(())
}
