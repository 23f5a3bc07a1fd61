//! Handles: opaque values that name an object of one simulator and can be dereferenced by nobody.
//!
//! From the top: 0x5 and the kind, the simulator's epoch, a bit that keeps the value out of every address space, the
//! slot, and the number of the object.

use core::ptr::without_provenance_mut;

use crate::state::State;

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Context = 1,
    Stream,
    Event,
    Pool,
    Graph,
    GraphExec,
    Module,
    Library,
    Kernel,
    Function,
}

impl State {
    const fn prefix(&self, kind: Kind) -> u64 {
        (5 << 60) | (kind as u64) << 56 | 1 << 55 | ((self.epoch & 0x7fff) as u64) << 40 | (self.slot as u64) << 32
    }

    /// The handle of the object of that kind and number.
    pub(crate) const fn handle<T>(&self, kind: Kind, number: u32) -> *mut T {
        without_provenance_mut((self.prefix(kind) | ((number as u64) + 1) << 4) as usize)
    }

    /// The number in a handle; `None` if it is not a handle of that kind and this simulator.
    pub(crate) fn number<T>(&self, kind: Kind, handle: *mut T) -> Option<u32> {
        let value = handle.addr() as u64;
        if value & 0xffff_ffff_0000_000f != self.prefix(kind) {
            return None;
        }
        ((value as u32) >> 4).checked_sub(1)
    }
}
