//! The one question that every driver call asks first: may this process still call the driver?
//!
//! The driver's state does not survive a fork, yet some of its calls answer success in the child: an allocation hands
//! out a pointer that means nothing. The answer costs one load of a byte that is zero in every healthy process. The
//! same byte says whether anything else is out of the ordinary (a stream has lost its order, say, or has frees to make up
//! for), so that an allocation and its release need not look elsewhere.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU8, Ordering},
};

use crate::{Error, Result};

const FORKED: u8 = 1;
const ORDER_LOST: u8 = 2;
const DEFERRED: u8 = 4;
const RELAXED: u8 = 8;
const SOFT_LIMIT: u8 = 16;

static CLOSED: AtomicU8 = AtomicU8::new(0);

/// A bit that stands for as long as anything is counted.
pub(crate) struct Counted {
    bit: u8,
    /// Below zero for a moment where one thread counts what another has just set and lifts.
    count: Mutex<isize>,
}

/// Frees that streams have to make up for.
pub(crate) static DEFERRED_FREES: Counted = Counted::new(DEFERRED);

/// Requests to make every call in the relaxed capture mode.
pub(crate) static RELAXED_CALLS: Counted = Counted::new(RELAXED);

/// Pools that have a soft limit.
pub(crate) static SOFT_LIMITS: Counted = Counted::new(SOFT_LIMIT);

impl Counted {
    const fn new(bit: u8) -> Self {
        Self { bit, count: Mutex::new(0) }
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        CLOSED.load(Ordering::Relaxed) & self.bit != 0
    }

    pub(crate) fn add(&self, more: usize) {
        self.change(isize::try_from(more).unwrap_or(isize::MAX));
    }

    pub(crate) fn subtract(&self, less: usize) {
        self.change(isize::try_from(less).map_or(isize::MIN, isize::wrapping_neg));
    }

    fn change(&self, more: isize) {
        // In a forked child the lock may be held by a thread that is not there, and nothing is asked any more.
        if check().is_err() {
            return;
        }
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_add(more);
        if *count > 0 {
            CLOSED.fetch_or(self.bit, Ordering::Relaxed);
        } else {
            CLOSED.fetch_and(!self.bit, Ordering::Relaxed);
        }
    }
}

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

#[cold]
fn check_closed() -> Result<()> {
    if CLOSED.load(Ordering::Relaxed) & FORKED == 0 { Ok(()) } else { Err(Error::ForkedAfterInit) }
}

/// From now on a forked child is one that inherits an initialised driver. Asked for wherever something is first made or
/// found, since it may be somebody else who has initialised the driver.
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

/// Whether `child` answers true, in time, in a forked child.
#[cfg(all(test, unix, not(cupool_shuttle)))]
pub(crate) fn holds_in_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs this crate's code alone, which calls no driver there, and ends without returning into the
    // test harness; the alarm ends it if it waits for a thread that it does not have.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(5);
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
            libc::_exit(i32::from(!held));
        }
        let mut status = -1;
        libc::waitpid(pid, &raw mut status, 0) == pid && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}
