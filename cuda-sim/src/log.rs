//! The order of calls; their counts are kept by the slot.

use cuda_sys::Symbol;

/// The calls so far, if they are being recorded.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) recording: bool,
    pub(crate) calls: Vec<Logged>,
}

/// A call that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) symbol: Symbol,
    /// By whom: see [`slots::thread`](crate::slots::thread).
    pub(crate) thread: u64,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { recording: true, calls: Vec::new() }
    }

    pub(crate) fn push(&mut self, symbol: Symbol, thread: u64) {
        if self.recording {
            self.calls.push(Logged { symbol, thread });
        }
    }
}
