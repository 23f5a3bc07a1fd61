//! The loader, against real shared libraries: copies of the simulated driver, whole, altered and broken.
//!
//! Tests named after a case (`a1_…`) state the behaviour that is right in it. Most hand the search its candidates, as
//! it would find them under another root; those in [`process`] run it as it is, each in a process of its own.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod by_name;
mod candidates;
mod files;
mod layout;
mod process;
mod symbols;
