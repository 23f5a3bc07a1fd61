//! `peers calls [--check]`: which driver calls each Rust peer makes for an operation, counted on the simulated driver in
//! place of `libcuda`, as the page `benches/results/peer-calls.md`. With `--check`, fails if that is no longer so for the
//! peers that were built.
//!
//! Every peer is counted in a process of its own, where the linker finds the simulated driver before any other.

mod counts;
mod cudarc;
#[cfg(feature = "cuda-core")]
mod nvidia;
mod ours;
mod page;

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{self, Command},
};

use crate::peer::Outcome;
use counts::{Counts, Row};

const PAGE: &str = "benches/results/peer-calls.md";

/// What is set up once, and then does each operation.
trait Operations {
    fn run(&self, counts: &mut Counts) -> Outcome<()>;
}

/// A peer as it is set up, and what the page says of it.
struct Peer {
    name: &'static str,
    setting: &'static str,
    /// Whether it makes calls on a thread of its own, which are waited for.
    has_thread: bool,
    open: fn() -> Outcome<Box<dyn Operations>>,
}

const PEERS: &[Peer] = &[
    Peer {
        name: "cupool",
        setting: "As it comes: buffers from a pool of `MemPool::new`, on streams of `Stream::new`.",
        has_thread: false,
        open: || Ok(Box::new(ours::Ours::open()?)),
    },
    Peer {
        name: "cudarc",
        setting: "Version 0.19.10 as it comes, on streams of `CudaContext::new_stream`. What another stream did with a slice is \
                  waited for by its next use, which is not counted with the loan.",
        has_thread: false,
        open: || Ok(Box::new(cudarc::Cudarc::open(cudarc::Setting::AsItComes)?)),
    },
    Peer {
        name: "cudarc, default stream",
        setting: "Version 0.19.10 as it comes, on the default stream while there is no other: it orders nothing then.",
        has_thread: false,
        open: || Ok(Box::new(cudarc::Cudarc::open(cudarc::Setting::DefaultStream)?)),
    },
    Peer {
        name: "cudarc, no tracking",
        setting: "Version 0.19.10 after `disable_event_tracking`, which is unsafe: streams are ordered by hand.",
        has_thread: false,
        open: || Ok(Box::new(cudarc::Cudarc::open(cudarc::Setting::NoTracking)?)),
    },
    #[cfg(feature = "cuda-core")]
    Peer {
        name: "cuda-core",
        setting: "Version 0.5.0 as it comes, on streams of `Context::new_stream`. What another stream has yet to finish \
                  with is refused, a lease included; streams are ordered by hand.",
        has_thread: true,
        open: || Ok(Box::new(nvidia::CudaCore::open()?)),
    },
];

/// Whether all peers are built, and the page can be written.
const COMPLETE: bool = cfg!(feature = "cuda-core");

pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] if !COMPLETE => Err("the page has cuda-core as well: scripts/peer-calls builds all peers".into()),
        [] => {
            fs::write(file, page::page(&counted()?))?;
            println!("{PAGE} is written");
            Ok(())
        }
        ["--check"] => {
            let (committed, found) = (fs::read_to_string(file)?, counted()?);
            if let Some(change) = page::change(&committed, &found, COMPLETE) {
                return Err(format!("{PAGE} is no longer so; scripts/peer-calls writes it anew:\n{change}").into());
            }
            let names: Vec<&str> = found.iter().map(|(peer, _)| peer.name).collect();
            println!("{PAGE} is what was counted: {}", names.join("; "));
            Ok(())
        }
        ["--count", name] => count(name),
        _ => Err("peers calls [--check]".into()),
    }
}

/// What each peer called.
fn counted() -> Outcome<Vec<(&'static Peer, Vec<Row>)>> {
    let library = library()?;
    let folder = env::temp_dir().join(format!("cupool-peer-calls-{}", process::id()));
    fs::create_dir(&folder)?;
    let counted = (|| {
        for name in ["libcuda.so", "libcuda.so.1"] {
            symlink(&library, folder.join(name))?;
        }
        PEERS.iter().map(|peer| Ok((peer, in_a_process(peer, &folder)?))).collect()
    })();
    fs::remove_dir_all(&folder)?;
    counted
}

/// The simulated driver's shared library: the one that cargo built with this program, or the one that is named.
fn library() -> Outcome<PathBuf> {
    if let Some(library) = env::var_os("CUPOOL_SIM_LIBRARY") {
        return Ok(fs::canonicalize(library)?);
    }
    let library = env::current_exe()?.with_file_name("deps").join("libcupool_sim.so");
    Ok(fs::canonicalize(&library).map_err(|error| format!("{}: {error}", library.display()))?)
}

/// What a peer does in a process whose `libcuda` is the one in `folder`.
fn in_a_process(peer: &Peer, folder: &Path) -> Outcome<Vec<Row>> {
    let output = Command::new(env::current_exe()?)
        .args(["calls", "--count", peer.name])
        .env("LD_LIBRARY_PATH", folder)
        .env_remove("CUPOOL_DRIVER_LIBRARY")
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{}: {text}{}", peer.name, String::from_utf8_lossy(&output.stderr)).into());
    }
    text.lines().map(Row::parse).collect()
}

/// Prints the rows of a peer. All is done twice: the second time everything is there that is made once.
fn count(name: &str) -> Outcome<()> {
    let peer = PEERS.iter().find(|peer| peer.name == name).ok_or("no such peer")?;
    let mut counts = Counts::open(peer.has_thread)?;
    let operations = (peer.open)()?;
    operations.run(&mut counts)?;
    counts.rows.clear();
    operations.run(&mut counts)?;
    for row in &counts.rows {
        println!("{row}");
    }
    Ok(())
}
