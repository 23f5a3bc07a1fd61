//! "Costs the driver call" in instructions: what a `Buffer` executes over the two raw calls it stands for.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::process::Command;

/// What a buffer may execute beyond the raw calls: it checks for a forked process twice, that pool and stream are of
/// one driver, that there is something to allocate and to free, and keeps what `Drop` needs. The raw calls check both
/// codes, too.
const TOLERANCE: u64 = 26;

#[test]
fn allocate_and_drop_execute_hardly_more_than_the_raw_calls() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--example", "instructions"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let count = |form: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(form));
        let line = line.unwrap_or_else(|| panic!("no {form} in {text}\n{}", String::from_utf8_lossy(&output.stderr)));
        line.trim().parse().unwrap()
    };
    let (raw, buffer) = (count("raw "), count("buffer "));
    println!("instructions: raw {raw}, buffer {buffer}");
    assert!(raw > 10, "{raw} instructions cannot be two calls and their checks");
    assert!(buffer <= raw + TOLERANCE, "raw {raw}, buffer {buffer}");
}
