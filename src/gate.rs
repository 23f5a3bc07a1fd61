//! The one question that every driver call asks first: may this process still call the driver?
//!
//! The driver's state does not survive a fork, yet some of its calls answer success in the child: an allocation hands
//! out a pointer that means nothing. The answer costs one load of a byte that is zero in every healthy process. The
//! same byte says whether any stream has lost its order, so that the release of a buffer need not look elsewhere, and
//! whether any pool has a soft limit, so that an allocation need not.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU8, Ordering},
};

use crate::{Error, Result};

const FORKED: u8 = 1;
const ORDER_LOST: u8 = 2;
const SOFT_LIMIT: u8 = 8;

static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Pools that have a soft limit. Below zero for a moment where two threads set and lift one.
static LIMITED: Mutex<i64> = Mutex::new(0);

/// Fails in a forked child.
#[inline(always)]
pub(crate) fn check() -> Result<()> {
    if is_open() { Ok(()) } else { check_closed() }
}

/// Whether nothing at all is out of the ordinary.
#[inline(always)]
pub(crate) fn is_open() -> bool {
    CLOSED.load(Ordering::Relaxed) == 0
}

/// From now on some stream in this process has lost its order.
pub(crate) fn note_order_lost() {
    CLOSED.fetch_or(ORDER_LOST, Ordering::Relaxed);
}

/// One more pool has a soft limit.
pub(crate) fn note_soft_limit() {
    count_soft_limits(1);
}

/// One pool less has a soft limit.
pub(crate) fn forget_soft_limit() {
    count_soft_limits(-1);
}

fn count_soft_limits(more: i64) {
    // In a forked child a thread that is no more may hold the lock, and nothing is allocated anyway.
    if check().is_err() {
        return;
    }
    let mut limited = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    *limited += more;
    if *limited > 0 {
        CLOSED.fetch_or(SOFT_LIMIT, Ordering::Relaxed);
    } else {
        CLOSED.fetch_and(!SOFT_LIMIT, Ordering::Relaxed);
    }
}

#[cold]
fn check_closed() -> Result<()> {
    if CLOSED.load(Ordering::Relaxed) & FORKED == 0 { Ok(()) } else { Err(Error::ForkedAfterInit) }
}

/// From now on a forked child is one that inherits an initialised driver.
#[cfg(unix)]
pub(crate) fn arm() -> Result<()> {
    use std::sync::OnceLock;

    unsafe extern "C" fn in_child() {
        CLOSED.fetch_or(FORKED, Ordering::Relaxed);
    }

    static ARMED: OnceLock<i32> = OnceLock::new();
    // SAFETY: the handler only changes an atomic, which is allowed between fork and exec. It lives as long as the
    // code of this crate.
    match ARMED.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(in_child)) }) {
        0 => Ok(()),
        errno => Err(Error::ForkHandler(*errno)),
    }
}

/// There is no fork here.
#[cfg(not(unix))]
pub(crate) fn arm() -> Result<()> {
    let _ = FORKED;
    Ok(())
}
