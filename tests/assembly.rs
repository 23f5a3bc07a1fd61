//! "Costs the driver call" in instructions: what operations execute over the raw calls they stand for.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{collections::BTreeMap, process::Command};

/// What each operation may execute beyond the raw calls, which check their codes, too: a tenth more than it did with
/// Rust 1.95, and 3 at least. All ask whether the process was forked; what takes two objects asks whether they are of
/// one driver; a buffer keeps what `Drop` needs.
const MOST: [(&str, i64); 13] = [
    ("allocate and free", 22),
    ("copy at home", 75),
    ("fill", 27),
    ("view", 37),
    ("record", 28),
    ("wait", 21),
    ("query an event", 81),
    ("query a stream", 26),
    ("synchronise", 23),
    ("lend and take back", 106),
    ("lend for reading and take back", 94),
    ("copy between homes", 211),
    ("move there and back", 146),
];

#[test]
fn operations_execute_hardly_more_than_the_raw_calls() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--example", "instructions"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let counts: BTreeMap<&str, (i64, i64)> = text.lines().map(counts).collect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(counts.keys().copied().eq(BTreeMap::from(MOST).into_keys()), "counted are {:?}", counts.keys());
    let above: Vec<String> = MOST
        .iter()
        .map(|(name, most)| (name, most, counts[name]))
        .filter(|(_, most, (raw, ours))| ours - raw > **most)
        .map(|(name, most, (raw, ours))| format!("{name}: raw {raw}, ours {ours}, which is more than {most} more"))
        .collect();
    assert!(above.is_empty(), "{above:#?}");
    let (raw, ours) = counts["allocate and free"];
    assert!(raw > 10, "{raw} instructions cannot be two calls and their checks");
    assert!(ours > raw, "{ours} instructions cannot be the same two calls and more checks than {raw}");
}

/// The operation of a line, and its counts.
fn counts(line: &str) -> (&str, (i64, i64)) {
    let wrong = || panic!("no counts in {line:?}");
    let (raw, rest) = line.trim_start().split_once(' ').unwrap_or_else(wrong);
    let (ours, name) = rest.trim_start().split_once(' ').unwrap_or_else(wrong);
    (name, (raw.parse().unwrap(), ours.parse().unwrap()))
}
