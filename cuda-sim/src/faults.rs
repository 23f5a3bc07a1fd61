//! Calls that are told to fail.

use cuda_sys::{CUresult, Symbol};

/// Which calls fail.
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

/// The rules in force.
#[derive(Debug)]
pub(crate) struct Faults(Vec<(Which, CUresult)>);

impl Faults {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn add(&mut self, which: Which, code: CUresult) {
        self.0.push((which, code));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The code that this call has been told to answer.
    pub(crate) fn check(&mut self, symbol: Symbol, index: u64) -> Option<CUresult> {
        if self.0.is_empty() {
            return None;
        }
        let mut answer = None;
        self.0.retain_mut(|(which, code)| {
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
                answer = Some(*code);
            }
            keep
        });
        answer
    }
}
