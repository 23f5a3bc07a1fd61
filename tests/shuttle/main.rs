//! What threads do at once, in orders that `shuttle` chooses: every lock and every counter of the crate.
//!
//! Compiled only under `--cfg cupool_shuttle`; `scripts/shuttle` does that. Each test is run in some thousand orders,
//! half of them random, half with few changes of thread at random places. The driver is the simulated one, and each
//! call to it is a place where another thread may go first.
//!
//! Shuttle takes every atomic access to be sequentially consistent: weaker orderings are argued for where they stand.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CUPOOL_SCHEDULES` | orders for each test: 3000 unless set |
//! | `SHUTTLE_RANDOM_SEED` | where they begin |
#![cfg(cupool_shuttle)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod world;

mod controls;
mod fences;
mod imports;
mod loans;
mod pinned;
mod pools;
mod releases;
mod staging;
