//! Allocators beside each other: all in one process, in batches that alternate, so that the machine's drift falls on all
//! alike. `peers [--quick]`; the method is in `README.md`. `peers calls` needs no GPU, and counts driver calls.

mod calls;
mod ours;
mod peer;
mod report;
mod run;
mod shim;
#[cfg(feature = "cuda-core")]
mod with_cuda_core;
mod with_cudarc;

use std::{path::PathBuf, process::ExitCode};

use ours::Ours;
use peer::{Outcome, Peer, Timed};
use report::Report;
use run::Contestant;
use shim::Shim;
use with_cudarc::{Cudarc, DefaultPool};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((command, arguments)) if command == "calls" => calls::command(arguments),
        _ => measured(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measured() -> Outcome<()> {
    let quick = std::env::args().any(|argument| argument == "--quick")
        || std::env::var_os("CUPOOL_BENCH_QUICK").is_some_and(|set| !set.is_empty() && set != "0");
    let report = Report::from_environment()?;
    let default_pool = DefaultPool::of_device()?;
    let contestants = contestants(&default_pool, &report)?;
    let result = run::everything(&contestants, &default_pool, &report, quick);
    default_pool.set_threshold(0)?;
    result
}

/// Who takes part: this crate, the Rust crates, and whatever shared library was built.
fn contestants(default_pool: &DefaultPool, report: &Report) -> Outcome<Vec<Contestant>> {
    let as_found = default_pool.threshold()?;
    let ours = || Ok(Box::new(Timed::new(Ours::open(run::STREAMS)?)) as Box<dyn Peer>);
    let mut all = vec![Contestant::new("cupool", "as it comes", ours)?];
    for (setting, threshold) in [("as it comes", as_found), ("kept", u64::MAX)] {
        let fresh = || Ok(Box::new(Timed::new(Cudarc::open(run::STREAMS)?)) as Box<dyn Peer>);
        all.push(Contestant::new("cudarc", setting, fresh)?.with_threshold(threshold));
    }
    report.version("cudarc", "0.19.10")?;
    #[cfg(feature = "cuda-core")]
    {
        for (setting, threshold) in [("as it comes", as_found), ("kept", u64::MAX)] {
            let fresh = || Ok(Box::new(Timed::new(with_cuda_core::CudaCore::open(run::STREAMS)?)) as Box<dyn Peer>);
            all.push(Contestant::new("cuda-core", setting, fresh)?.with_threshold(threshold));
        }
        report.version("cuda-core", "0.5.0")?;
    }
    for path in shims()? {
        match shim_contestants(&path, report) {
            Ok(more) => all.extend(more),
            Err(error) => println!("absent: {}: {error}", path.display()),
        }
    }
    Ok(all)
}

fn shim_contestants(path: &std::path::Path, report: &Report) -> Outcome<Vec<Contestant>> {
    let shim = Shim::load(path)?;
    let mut all = Vec::new();
    for (number, (setting, _)) in (0..).zip(shim.settings()) {
        let of = std::sync::Arc::clone(&shim);
        let fresh = move || Ok(Box::new(of.open(number, run::STREAMS)?) as Box<dyn Peer>);
        all.push(Contestant::new(&shim.who(), &setting, fresh)?);
    }
    report.version(&shim.who(), &shim.version())?;
    Ok(all)
}

/// The libraries that `build` has made: in the folder of this executable, or the one that `CUPOOL_PEER_SHIMS` names.
fn shims() -> Outcome<Vec<PathBuf>> {
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("shims"));
    let folder = match std::env::var_os("CUPOOL_PEER_SHIMS") {
        Some(folder) => PathBuf::from(folder),
        None => beside()?,
    };
    let Ok(entries) = folder.read_dir() else {
        println!("absent: all in C and C++, since there is no {}", folder.display());
        return Ok(Vec::new());
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libpeer_")));
    paths.sort();
    Ok(paths)
}
