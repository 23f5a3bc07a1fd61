//! Makes a trace of what a program or library has recorded.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use lexopt::{Arg, ValueExt};
use traces::{Trace, csv, rmm, torch};

const USAGE: &str = "\
Usage: convert-trace [--device NUMBER] INPUT OUTPUT

INPUT   `time_us,op,id,bytes,stream` as CSV, a log of RMM's logging_resource_adaptor,
        a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot) or a trace;
        which of them is seen from its beginning. `-` reads standard input
OUTPUT  the trace; by custom its name ends in .trace.gz

--device NUMBER   of a snapshot with the histories of several devices, this one's";

fn main() -> ExitCode {
    match arguments().and_then(|arguments| arguments.as_ref().map_or(Ok(()), convert)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("convert-trace: {error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Arguments {
    input: PathBuf,
    output: PathBuf,
    device: Option<usize>,
}

/// `None` if only help was asked for.
fn arguments() -> Result<Option<Arguments>> {
    let mut parser = lexopt::Parser::from_env();
    let (mut files, mut device) = (Vec::new(), None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("device") => device = Some(parser.value()?.parse()?),
            Arg::Short('h') | Arg::Long("help") => {
                println!("{USAGE}");
                return Ok(None);
            }
            Arg::Value(file) => files.push(PathBuf::from(file)),
            other => return Err(other.unexpected().into()),
        }
    }
    let [input, output] = <[PathBuf; 2]>::try_from(files).map_err(|_| USAGE)?;
    Ok(Some(Arguments { input, output, device }))
}

fn convert(arguments: &Arguments) -> Result<()> {
    let input = &arguments.input;
    let mut bytes = Vec::new();
    let read = if input == Path::new("-") {
        io::stdin().read_to_end(&mut bytes)
    } else {
        fs::File::open(input).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("{}: {error}", input.display()))?;
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('.').next().unwrap_or_default();
    let trace = trace(name, &bytes, arguments.device).map_err(|error| format!("{}: {error}", input.display()))?;

    let mut file = Vec::new();
    trace.write(&mut file)?;
    fs::write(&arguments.output, file).map_err(|error| format!("{}: {error}", arguments.output.display()))?;
    let (events, streams, peak) = (trace.events.len(), trace.streams, trace.peak_live());
    println!("{name}: {events} events on {streams} streams, at most {peak} bytes live");
    Ok(())
}

/// Reads whichever kind of file it is.
fn trace(name: &str, bytes: &[u8], device: Option<usize>) -> Result<Trace> {
    // Pickles of protocol 2 and later begin with this byte, and gzip's files with those.
    if bytes.starts_with(&[0x80]) {
        let (trace, skipped) = torch::read(name, bytes, device)?;
        note(skipped.earlier, "frees of what was allocated before recording began");
        note(skipped.failures, "allocations that failed");
        return Ok(trace);
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(Trace::read(name, bytes)?);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| UNKNOWN)?;
    match text.lines().next() {
        Some(csv::HEADER) => Ok(csv::read(name, text)?),
        Some(rmm::HEADER) => {
            let (trace, skipped) = rmm::read(name, text)?;
            note(skipped.failures, "allocations that failed");
            note(skipped.empty, "allocations and frees of no bytes");
            Ok(trace)
        }
        _ => Err(UNKNOWN.into()),
    }
}

const UNKNOWN: &str = "neither a log of RMM, nor a snapshot of PyTorch, nor a trace";

fn note(count: usize, what: &str) {
    if count > 0 {
        println!("left out: {count} {what}");
    }
}
