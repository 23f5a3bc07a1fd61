//! What a program waits for until it has its first memory: the driver loaded and its entry points resolved, initialised,
//! a context, a stream and a pool, an allocation. Each time in a fresh process, beside a C program that does the same
//! (`first_use.c`), in turns.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use cupool::{
    Driver, MemPool, Stream,
    cuda_sys::{DRIVER_LIBRARY_VARIABLE, Symbol},
};
use serde_json::json;

#[path = "measure/bench.rs"]
mod bench;

use bench::{Result, measure, record::Record};

/// Says which part a child has.
const CHILD: &str = "CUPOOL_BENCH_CHILD";

/// What is measured, in order.
const STEPS: [&str; 7] = ["load", "resolve", "init", "context", "stream and pool", "first allocation", "all"];

const BYTES: usize = 1 << 20;

/// How often each is done, and for how long at most.
const ROUNDS: usize = 21;
const BUDGET: Duration = Duration::from_secs(40);
const LEAST_ROUNDS: usize = 5;

fn main() -> ExitCode {
    bench::ended(match std::env::var(CHILD).as_deref() {
        Ok("all") => all_steps(),
        Ok("resolve") => resolve(),
        _ => run(),
    })
}

fn say(step: &str, elapsed: Duration) {
    println!("{step} {}", elapsed.as_nanos());
}

/// In a fresh process: everything up to the first memory.
fn all_steps() -> Result {
    let start = Instant::now();
    let driver = Driver::load()?;
    let loaded = Instant::now();
    driver.init()?;
    let initialised = Instant::now();
    let context = driver.device(0)?.primary_context()?;
    let entered = Instant::now();
    let stream = Stream::new(&context)?;
    let pool = MemPool::new(&context.device())?;
    let made = Instant::now();
    let buffer = pool.alloc::<u8, _>(BYTES, &stream)?;
    stream.synchronize()?;
    let allocated = Instant::now();
    drop(buffer);
    say("load", loaded - start);
    say("init", initialised - loaded);
    say("context", entered - initialised);
    say("stream and pool", made - entered);
    say("first allocation", allocated - made);
    say("all", allocated - start);
    Ok(())
}

/// In a fresh process: what loading costs once the library is open.
#[cfg(unix)]
fn resolve() -> Result {
    let library = std::env::var(DRIVER_LIBRARY_VARIABLE).unwrap_or_else(|_| "libcuda.so.1".into());
    let library = std::ffi::CString::new(library)?;
    // SAFETY: the library that is loaded as the driver in any case.
    if unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) }.is_null() {
        return Err("the driver's library cannot be opened".into());
    }
    let start = Instant::now();
    Driver::load()?;
    say("resolve", start.elapsed());
    Ok(())
}

#[cfg(not(unix))]
fn resolve() -> Result {
    Ok(())
}

fn run() -> Result {
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    let (library, rounds, record) = if bench::is_simulated() {
        println!("first_use on the SIMULATED device: it runs to its end, and its figures mean nothing.");
        (Some(simulated_library()?), 1, Record::nowhere())
    } else {
        // Loading touches no device, so that the children find it as it was.
        bench::real_driver()?;
        println!("first_use on the real driver, a process each time");
        let chosen = std::env::var_os(DRIVER_LIBRARY_VARIABLE).filter(|name| !name.is_empty());
        (chosen.map(PathBuf::from), ROUNDS, Record::from_environment())
    };
    let folder = std::env::temp_dir().join(format!("cupool-first-use-{}", std::process::id()));
    let raw = raw_program(&folder);
    if raw.is_none() {
        println!("no C compiler here (cc): the C program that does the same is missing");
    }
    let measured = measure_in_turns(raw.as_deref(), library.as_deref(), rounds);
    // There is none if the program was not made here.
    let _ = std::fs::remove_dir_all(&folder);
    let mut measured = measured?;
    for step in STEPS {
        let [raw, ours] = [&mut measured.raw, &mut measured.ours].map(|of| of.remove(step).unwrap_or_default());
        report(step, &raw, &ours, &record);
    }
    Ok(())
}

type Steps = std::collections::HashMap<String, Vec<f64>>;

#[derive(Default)]
struct Measured {
    raw: Steps,
    ours: Steps,
}

fn measure_in_turns(raw: Option<&Path>, library: Option<&Path>, rounds: usize) -> Result<Measured> {
    let myself = std::env::current_exe()?;
    let environment = library.map(|library| (DRIVER_LIBRARY_VARIABLE, library));
    let child = |part: &str| {
        let mut command = Command::new(&myself);
        command.env(CHILD, part).envs(environment);
        answers(&mut command, "")
    };
    let entries: String =
        Symbol::ALL.iter().map(|s| format!("{} {}\n", s.name().to_string_lossy(), s.since())).collect();
    let theirs = |raw: &Path| answers(Command::new(raw).args(library), &entries);

    let mut measured = Measured::default();
    let start = Instant::now();
    // The first round warms the system's caches up.
    for round in 0..=rounds {
        let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                of_raw = raw.map_or_else(|| Ok(Vec::new()), theirs)?;
            } else {
                of_ours = child("all")?;
                of_ours.extend(child("resolve")?);
            }
        }
        println!("    round {round} of {rounds}, after {:.1} s", start.elapsed().as_secs_f64());
        if round > 0 {
            of_raw.into_iter().for_each(|(step, ns)| measured.raw.entry(step).or_default().push(ns));
            of_ours.into_iter().for_each(|(step, ns)| measured.ours.entry(step).or_default().push(ns));
        }
        if start.elapsed() > BUDGET && round >= LEAST_ROUNDS {
            break;
        }
    }
    Ok(measured)
}

/// Runs a program that says how long its steps took.
fn answers(command: &mut Command, input: &str) -> Result<Vec<(String, f64)>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{}: {}\n{text}", command.get_program().to_string_lossy(), output.status).into());
    }
    let step = |line: &str| Some(line.rsplit_once(' ')?).map(|(step, ns)| Ok((step.to_owned(), ns.parse()?)));
    text.lines().filter_map(step).collect()
}

fn report(step: &str, raw: &[f64], ours: &[f64], record: &Record) {
    let ratio = measure::median(&measure::ratios(ours, raw));
    for (who, setting, values) in [("raw", "C program", raw), ("cupool", "as it comes", ours)] {
        if values.is_empty() {
            continue;
        }
        let value = measure::median(values);
        let (low, high) = (measure::quantile(values, 0.25), measure::quantile(values, 0.75));
        let us = |ns: f64| ns / 1000.0;
        println!("{step:<18} {who:<8} {:>12.1} us  [{:.1} {:.1}]", us(value), us(low), us(high));
        let mut line = json!({
            "bench": "first_use",
            "who": who,
            "setting": setting,
            "parameters": { "what": step },
            "unit": "ns",
            "value": value,
            "low": low,
            "high": high,
            "source": "benches/first_use.rs",
        });
        if let (Some(fields), "cupool", true) = (line.as_object_mut(), who, ratio.is_finite()) {
            println!("{:<18} {ratio:.4} of the C program", "");
            fields.insert("against".into(), "raw".into());
            fields.insert("ratio".into(), ratio.into());
        }
        record.line(&line);
    }
}

/// The C program: the one that `CUPOOL_FIRST_USE_RAW` names, else made in `folder` if there is a compiler.
fn raw_program(folder: &Path) -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("CUPOOL_FIRST_USE_RAW") {
        return Some(program.into());
    }
    std::fs::create_dir_all(folder).ok()?;
    let (source, program) = (folder.join("first_use.c"), folder.join("first_use"));
    std::fs::write(&source, include_str!("first_use.c")).ok()?;
    let arguments: [OsString; 5] = ["-O2".into(), "-o".into(), program.clone().into(), source.into(), "-ldl".into()];
    Command::new("cc").args(arguments).status().ok()?.success().then_some(program)
}

/// The simulated driver as a library: beside this program, where cargo puts it, or where the environment says.
fn simulated_library() -> Result<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("libcupool_sim.so"));
    let file = std::env::var_os("CUPOOL_SIM_LIBRARY").map(PathBuf::from).or_else(beside);
    let file = file.filter(|file| file.exists());
    file.ok_or_else(|| "no libcupool_sim.so here; CUPOOL_SIM_LIBRARY names it".into())
}
