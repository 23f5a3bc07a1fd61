//! Calls that are told to fail, or to order nothing.

use cuda_sys::{CUresult, Symbol};

/// Which calls are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// One call of this entry point, after that many others of it.
    After(Symbol, u64),
    /// The call of that index.
    Index(u64),
    /// The call of that index and all later ones.
    From(u64),
    /// Every call of this entry point.
    Every(Symbol),
}

/// What becomes of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The call answers the code and does nothing.
    Fail(CUresult),
    /// The call is accepted, and orders nothing.
    Ignore,
}

/// The rules in force.
#[derive(Debug)]
pub(crate) struct Faults(Vec<(Which, Fault)>);

impl Faults {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, which: Which, fault: Fault) {
        self.0.push((which, fault));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What this call has been told.
    pub(crate) fn check(&mut self, symbol: Symbol, index: u64) -> Option<Fault> {
        if self.0.is_empty() {
            return None;
        }
        let mut answer = None;
        self.0.retain_mut(|(which, fault)| {
            let (hit, keep) = match which {
                Which::After(of, _) if *of != symbol => (false, true),
                Which::After(_, 0) => (true, false),
                Which::After(_, left) => {
                    *left -= 1;
                    (false, true)
                }
                Which::Index(at) => (*at == index, *at > index),
                Which::From(from) => (index >= *from, true),
                Which::Every(of) => (*of == symbol, true),
            };
            if hit && answer.is_none() {
                answer = Some(*fault);
            }
            keep
        });
        answer
    }
}

/// Whether a call of this entry point orders things and nothing else, so that it can be accepted without doing anything.
pub(crate) const fn only_orders(symbol: Symbol) -> bool {
    matches!(
        symbol,
        Symbol::cuStreamWaitEvent
            | Symbol::cuEventRecord
            | Symbol::cuEventSynchronize
            | Symbol::cuEventQuery
            | Symbol::cuStreamSynchronize
            | Symbol::cuStreamQuery
            | Symbol::cuCtxSynchronize
    )
}
