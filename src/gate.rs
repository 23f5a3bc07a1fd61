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

static CLOSED: AtomicU8 = AtomicU8::new(0);

/// A bit that stands for as long as anything is counted.
pub(crate) struct Counted {
    bit: u8,
    count: Mutex<usize>,
}

/// Frees that streams have to make up for.
pub(crate) static DEFERRED_FREES: Counted = Counted::new(DEFERRED);

/// Requests to make every call in the relaxed capture mode.
pub(crate) static RELAXED_CALLS: Counted = Counted::new(RELAXED);

impl Counted {
    const fn new(bit: u8) -> Self {
        Self { bit, count: Mutex::new(0) }
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        CLOSED.load(Ordering::Relaxed) & self.bit != 0
    }

    pub(crate) fn add(&self, count: usize) {
        let mut counted = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *counted = counted.saturating_add(count);
        CLOSED.fetch_or(self.bit, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: usize) {
        let mut counted = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *counted = counted.saturating_sub(count);
        if *counted == 0 {
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
