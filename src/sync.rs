//! The locks and atomics that threads meet at: std's, or under `--cfg cupool_shuttle` those of `shuttle`, which runs a
//! test's threads in one order after another (see `scripts/shuttle`).
//!
//! What belongs to the whole process (the release log, the gate) is std's in any case: it outlives a test's run.

#[cfg(cupool_shuttle)]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(not(cupool_shuttle))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) mod atomic {
    #[cfg(cupool_shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(cupool_shuttle))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
}
