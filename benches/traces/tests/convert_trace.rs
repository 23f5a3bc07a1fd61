//! The program that makes traces, from each kind of recording, and what it says to others.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use traces::Trace;

/// A folder for one test, emptied first.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn convert(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_convert-trace")).args(arguments).output().unwrap()
}

fn converted(name: &str, input: &Path, options: &[&str]) -> (Trace, String) {
    let output = folder(name).join("made.trace.gz");
    let options: Vec<&Path> = options.iter().map(Path::new).chain([input, &output]).collect();
    let done = convert(&options);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    (Trace::read(name, std::fs::File::open(output).unwrap()).unwrap(), String::from_utf8(done.stdout).unwrap())
}

fn refused(arguments: &[&Path]) -> String {
    let done = convert(arguments);
    assert_eq!(done.status.code(), Some(1));
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn each_kind_of_recording_becomes_a_trace() {
    let (rmm, said) = converted("rmm", &recordings().join("rmm.csv"), &[]);
    assert_eq!((rmm.events.len(), rmm.streams, rmm.peak_live()), (5, 3, 2_098_176));
    assert!(said.contains("left out: 1 allocations that failed"), "{said}");

    let snapshot = recordings().join("snapshot.pickle");
    let (torch, said) = converted("torch", &snapshot, &["--device", "1"]);
    assert_eq!((torch.events.len(), torch.streams, torch.peak_live()), (5, 2, 4_195_304));
    assert!(said.contains("left out: 1 frees of what was allocated before recording began"), "{said}");

    let text = folder("text").join("text.csv");
    std::fs::write(&text, "time_us,op,id,bytes,stream\n0,a,0,512,0\n3,f,0,512,1\n").unwrap();
    let (csv, said) = converted("csv", &text, &[]);
    assert_eq!((csv.events.len(), csv.streams, csv.peak_live()), (2, 2, 512));
    assert_eq!(said, "text: 2 events on 2 streams, at most 512 bytes live\n");

    let trace = folder("again").join("again.trace.gz");
    csv.write(std::fs::File::create(&trace).unwrap()).unwrap();
    assert_eq!(converted("csv", &trace, &[]).0, csv);
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = folder("refused");
    let (input, output) = (folder.join("input"), folder.join("output"));
    for (content, said) in [
        (&b"Name,Size\n"[..], "neither a log of RMM"),
        (b"\xff\xfe", "neither a log of RMM"),
        (b"\x80\x04garbage", "not a memory snapshot of PyTorch"),
        (b"\x1f\x8b\x08\x00", "cannot be read"),
        (b"time_us,op,id,bytes,stream\n0,f,0,1,0\n", "event 0: a free of 0x0, which was never allocated"),
    ] {
        std::fs::write(&input, content).unwrap();
        let error = refused(&[&input, &output]);
        assert!(error.contains(said) && error.contains("input: "), "{error}");
        assert!(!output.exists(), "nothing is written");
    }
    assert!(refused(&[&folder.join("absent"), &output]).contains("absent: "));
    assert!(refused(&[&input]).contains("Usage: "));
    let snapshot = recordings().join("snapshot.pickle");
    assert!(refused(&[&snapshot, &output]).contains("several devices, [1, 3]: choose one"));
}
