//! The one question that every driver call asks first: may this process still call the driver?
//!
//! The driver's state does not survive a fork, yet some of its calls answer success in the child: an allocation hands
//! out a pointer that means nothing. The answer costs one load of a word that is zero in every healthy process. The
//! same word says whether any stream has lost its order, and how many captures are under way, so that nobody need look
//! elsewhere.

use core::ptr;
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use cuda_sys::Functions;

use crate::{Error, Result};

const FORKED: u32 = 1;
const ORDER_LOST: u32 = 2;
/// The captures are counted from this bit on.
const CAPTURE: u32 = 1 << 8;

static CLOSED: AtomicU32 = AtomicU32::new(0);

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

/// The drivers with captures under way, or expected, by the addresses of their tables; once for each.
static CAPTURING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Until it is dropped, calls that a capture in the driver could forbid, or that must not become part of one, take the
/// long way.
#[derive(Debug)]
pub(crate) struct Capturing {
    driver: usize,
}

impl Capturing {
    pub(crate) fn begin(functions: &Functions) -> Self {
        let driver = ptr::from_ref(functions).addr();
        if let Some(mut capturing) = capturing() {
            capturing.push(driver);
        }
        CLOSED.fetch_add(CAPTURE, Ordering::Relaxed);
        Self { driver }
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        if let Some(mut capturing) = capturing()
            && let Some(at) = capturing.iter().position(|driver| *driver == self.driver)
        {
            capturing.swap_remove(at);
        }
        CLOSED.fetch_sub(CAPTURE, Ordering::Relaxed);
    }
}

/// Whether captures in this driver are under way, or expected.
pub(crate) fn is_capturing(functions: &Functions) -> bool {
    capturing().is_some_and(|capturing| capturing.contains(&ptr::from_ref(functions).addr()))
}

/// Not in a forked child: another thread of the parent's may have held the lock, and would hold it for ever.
fn capturing() -> Option<MutexGuard<'static, Vec<usize>>> {
    check().ok().map(|()| CAPTURING.lock().unwrap_or_else(PoisonError::into_inner))
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
