//! The order of calls; their counts are kept by the slot.

use cuda_sys::Symbol;

/// The calls so far, if they are being recorded.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) recording: bool,
    pub(crate) calls: Vec<Symbol>,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { recording: true, calls: Vec::new() }
    }

    pub(crate) fn push(&mut self, symbol: Symbol) {
        if self.recording {
            self.calls.push(symbol);
        }
    }
}
