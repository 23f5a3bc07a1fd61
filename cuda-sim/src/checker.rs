//! What the simulator found wrong with how the driver was used.

use core::fmt;

use cuda_sys::Symbol;

use crate::state::State;

/// A kind of misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Misuse {
    /// Memory is freed that was freed before.
    FreedTwice,
    /// A pointer is freed that was never handed out, or points into an allocation.
    ForeignFree,
    /// Pinned memory is freed, or loses its pinning, while an operation that uses it may still have to run: the host
    /// has not waited for it.
    FreedInUse,
    /// An operation uses memory that has been freed.
    UseAfterFree,
    /// An operation uses stream-ordered memory before its allocation has taken place.
    UseBeforeAllocation,
    /// An operation uses stream-ordered memory, and nothing orders it after the allocation.
    UnorderedUse,
    /// Memory is freed in the order of one stream, and nothing orders the free after a use on another.
    UnorderedFree,
    /// Two operations use the same bytes, at least one of them writes, and nothing orders one after the other.
    DataRace,
    /// The host has changed pinned memory that a copy reads, without having waited for the copy. The other operation,
    /// if there is one, is the call that noticed.
    HostRace,
    /// An operation reaches past the end of an allocation.
    OutOfBounds,
    /// An operation uses a device address that was never handed out.
    UnknownAddress,
    /// A handle names nothing, or something that was destroyed.
    UnknownHandle,
    /// Bytes that the driver reserves are not zero.
    ReservedBytes,
    /// The default pool of a device is destroyed.
    DefaultPoolDestroyed,
    /// A pool is destroyed while memory of it is allocated, or a free has yet to run. The driver says that it keeps the
    /// pool until then, and 580.159 crashes.
    PoolDestroyedInUse,
    /// The driver is called inside a host function.
    CallInHostFunction,
    /// Everything that could run waits for something that cannot.
    Deadlock,
}

/// One operation or call, for a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Operation {
    /// Unique in the simulator, in the order of enqueueing.
    pub id: u64,
    /// The entry point that enqueued it.
    pub entry: Symbol,
    /// The id of its stream, as `cuStreamGetId` answers it; `None` if it belongs to none.
    pub stream: Option<u64>,
}

/// One misuse, with the operations that make it one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub misuse: Misuse,
    /// The operation or call that is wrong.
    pub operation: Operation,
    /// The operation that it is wrong against: the free before a use, say.
    pub earlier: Option<Operation>,
    /// The address it concerns, or the handle; 0 if none.
    pub address: u64,
    /// How many bytes from there.
    pub bytes: u64,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (operation {}", self.entry.row(), self.id)?;
        match self.stream {
            Some(stream) => write!(f, ", stream {stream})"),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {} at {:#x}", self.misuse, self.operation, self.address)?;
        if self.bytes != 0 {
            write!(f, " for {} bytes", self.bytes)?;
        }
        match &self.earlier {
            Some(earlier) => write!(f, "; earlier: {earlier}"),
            None => Ok(()),
        }
    }
}

/// Reports kept; misuse in a loop must not fill the memory.
const KEPT: usize = 1000;

impl State {
    /// Notes a misuse by the operation under way.
    pub(crate) fn found(&mut self, misuse: Misuse, address: u64, bytes: u64, earlier: Option<Operation>) {
        let operation = self.operation();
        self.keep(Finding { misuse, operation, earlier, address, bytes });
    }

    /// Notes two operations that nothing orders; the one that was enqueued later is called wrong.
    pub(crate) fn found_race(&mut self, address: u64, bytes: u64, other: Operation) {
        let operation = self.operation();
        let (earlier, operation) = if other.id < operation.id { (other, operation) } else { (operation, other) };
        self.keep(Finding { misuse: Misuse::DataRace, operation, earlier: Some(earlier), address, bytes });
    }

    fn keep(&mut self, finding: Finding) {
        if self.findings.len() < KEPT {
            self.findings.push(finding);
        }
    }

    /// The operation under way: the one being run, or else the call itself.
    pub(crate) fn operation(&mut self) -> Operation {
        match &self.running {
            Some(running) => running.operation,
            None => Operation { id: self.next_operation(), entry: self.entry, stream: None },
        }
    }

    /// A number for a new operation.
    pub(crate) fn next_operation(&mut self) -> u64 {
        self.operations += 1;
        self.operations
    }
}
