//! What became of releases that nobody could be told about: `Drop` reports here, and never to a later call.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use cuda_sys::CUresult;

use crate::{Error, Result, gate};

/// How many failures [`recent_release_failures`] remembers.
const REMEMBERED: usize = 16;

static FAILURES: AtomicU64 = AtomicU64::new(0);
static RECENT: Mutex<VecDeque<Error>> = Mutex::new(VecDeque::new());
static HOOK: RwLock<Option<fn(&Error)>> = RwLock::new(None);

/// How often a `Drop` in this process could not release what it held.
///
/// A driver that has shut down (code 4) or a context that somebody reset (709) has released everything itself, and
/// a forked child owns nothing: these do not count.
#[must_use]
pub fn release_failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

/// The last failures counted by [`release_failures`], oldest first, sixteen at most.
#[must_use]
pub fn recent_release_failures() -> Vec<Error> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// Calls `hook` for every failure that [`release_failures`] counts, on the thread that dropped; returns the hook that
/// was there before. A hook that panics is cut off: the panic does not leave the `Drop`.
pub fn set_release_hook(hook: Option<fn(&Error)>) -> Option<fn(&Error)> {
    core::mem::replace(&mut *HOOK.write().unwrap_or_else(PoisonError::into_inner), hook)
}

/// Whether the driver, the context or this process's part in them has ended, and everything in it with it.
pub(crate) fn is_over(error: &Error) -> bool {
    matches!(error.code(), Some(CUresult::CUDA_ERROR_DEINITIALIZED | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED))
        || *error == Error::ForkedAfterInit
}

/// Takes note of how a release in a `Drop` went.
#[inline]
pub(crate) fn report(result: Result<()>) {
    if let Err(error) = result {
        note(error);
    }
}

#[cold]
#[inline(never)]
fn note(error: Error) {
    // In a forked child nothing is lost, and a thread that is not there may hold the locks.
    if is_over(&error) || gate::check().is_err() {
        return;
    }
    FAILURES.fetch_add(1, Ordering::Relaxed);
    let hook = *HOOK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(hook) = hook {
        // Dropping what a panic carries could panic again.
        core::mem::forget(catch_unwind(AssertUnwindSafe(|| hook(&error))));
    }
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.len() == REMEMBERED {
        recent.pop_front();
    }
    recent.push_back(error);
}
