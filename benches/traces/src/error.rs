//! What can be wrong with a trace, or with a recording that was to become one.

use std::io;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input cannot be read, is cut short or is not compressed as it should be.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot be written: {0}")]
    Write(#[source] io::Error),
    /// The file is none of ours.
    #[error("not a trace: the file does not begin with `{}`", String::from_utf8_lossy(crate::compact::MAGIC))]
    NotATrace,
    /// A number in the file has more than 64 bits or is out of its range.
    #[error("event {event}: {what} is no number that can stand there")]
    Number {
        /// Which event, from 0.
        event: usize,
        /// Which of its numbers.
        what: &'static str,
    },
    /// Something stands behind the last event.
    #[error("bytes follow the last event")]
    Trailing,
    /// An event that cannot have happened.
    #[error("event {event}: {broken}")]
    Event {
        /// Which event, from 0.
        event: usize,
        /// What is wrong with it.
        broken: Broken,
    },
    /// A line that cannot be understood.
    #[error("line {line}: {what}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A line that tells of something that cannot have happened.
    #[error("line {line}: {broken}")]
    LineEvent {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        broken: Broken,
    },
    /// A file that is not a pickled memory snapshot.
    #[error("not a memory snapshot of PyTorch: {0}")]
    Snapshot(#[source] deser::Error),
    /// A snapshot without the history of the device that was asked for.
    #[error("the snapshot has no history of device {device}; there is one of: {present:?}")]
    Device {
        /// The device that was asked for.
        device: usize,
        /// Those that have a history.
        present: Vec<usize>,
    },
    /// A snapshot of several devices, of which none was chosen.
    #[error("the snapshot has the histories of several devices, {0:?}: choose one")]
    Devices(Vec<usize>),
}

/// What makes an event impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// Allocations are numbered from 0, in order.
    #[error("allocation {id} where {expected} comes next")]
    Id {
        /// The number it has.
        id: u64,
        /// The number it should have.
        expected: u32,
    },
    /// Nothing was allocated.
    #[error("an allocation of no bytes")]
    Empty,
    /// More is live than 64 bits can count.
    #[error("more bytes are live than can be counted")]
    TooMuch,
    /// There are more allocations or streams than 32 bits can count.
    #[error("more allocations or streams than can be counted")]
    TooMany,
    /// A free of what was not allocated before.
    #[error("a free of {0:#x}, which was never allocated")]
    Unknown(u64),
    /// A free of what was freed before.
    #[error("a second free of {0:#x}")]
    DoubleFree(u64),
    /// An allocation at an address that another has.
    #[error("an allocation at {0:#x}, which is allocated already")]
    Taken(u64),
    /// A stream beyond those that the trace has.
    #[error("stream {stream} of {streams}")]
    Stream {
        /// Which stream.
        stream: u64,
        /// How many there are.
        streams: u32,
    },
}
