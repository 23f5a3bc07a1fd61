//! Counts the instructions that operations execute, by the driver's raw calls and by way of this crate, and prints a
//! table. Each operation is what is done with warm caches: whatever is done on first use has been done.
//!
//! A child process runs each form between two signals while its parent has it execute one instruction after the
//! other. The driver calls themselves are stand-ins that do next to nothing, alike for both forms. Build with
//! optimisation; `tests/assembly.rs` runs this.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod operations;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod record;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stand_ins;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod steps;

/// `raw ours operation` in each line.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    let around = steps::count(operations::nothing);
    for operation in operations::OPERATIONS {
        let (raw, ours) = (steps::count(operation.raw) - around, steps::count(operation.ours) - around);
        println!("{raw:>4} {ours:>4} {}", operation.name);
        record::lines(operation.name, raw, ours);
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}
