//! Copies that read pinned memory, and whether the host has changed the bytes meanwhile.
//!
//! What the host does with its memory cannot be seen. But the bytes can, whenever the driver is called: if those of a
//! copy's source are no longer what they were when the copy was enqueued, no operation was given them to write, and the
//! host has not waited for the copy, then the host has written too early. It is noticed when the copy runs, when the
//! next copy is enqueued that reads the same bytes, and when the memory is freed.

use crate::{
    args::HostPointer,
    checker::{Misuse, Operation},
    past::Past,
    state::State,
    work::Point,
};

/// One such copy.
#[derive(Debug)]
struct Source {
    start: u64,
    end: u64,
    pointer: HostPointer,
    digest: u64,
    point: Point,
    operation: Operation,
    /// Host functions that had been run then: one may write in stream order.
    callbacks: u64,
}

/// Operations of one queue that may write a part of the range.
#[derive(Debug)]
struct Written {
    start: u64,
    end: u64,
    last: Point,
}

/// What uses one range, as far as the host has not waited for it.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The copies that read it, the oldest first.
    reads: Vec<Source>,
    /// By queue.
    writes: Vec<Written>,
}

/// As many copies are remembered; older ones are forgotten.
const REMEMBERED: usize = 16;

impl Source {
    fn is_changed(&self) -> bool {
        // SAFETY: the range stays pinned for as long as the list exists that this is in.
        self.digest != unsafe { digest(self.pointer, self.end - self.start) }
    }
}

impl Sources {
    pub(crate) const fn new() -> Self {
        Self { reads: Vec::new(), writes: Vec::new() }
    }

    /// An operation may write these bytes: what becomes of them until the host waits for it is not known.
    fn written(&mut self, start: u64, end: u64, point: Point, waited: &Past) {
        self.reads.retain(|read| read.end <= start || end <= read.start);
        self.writes.retain(|write| !waited.covers(write.last));
        match self.writes.iter_mut().find(|write| write.last.queue == point.queue) {
            Some(write) => {
                (write.start, write.end, write.last) = (write.start.min(start), write.end.max(end), point);
            }
            None => self.writes.push(Written { start, end, last: point }),
        }
    }

    /// Whether nothing but the host can change these bytes.
    fn is_still(&self, start: u64, end: u64, waited: &Past) -> bool {
        self.writes.iter().all(|write| write.end <= start || end <= write.start || waited.covers(write.last))
    }

    /// Takes out the copies whose bytes in that part have been changed.
    fn changed(&mut self, start: u64, end: u64, waited: &Past, callbacks: u64) -> Vec<Operation> {
        self.reads.retain(|read| !waited.covers(read.point) && read.callbacks == callbacks);
        let changed = |read: &mut Source| read.start < end && start < read.end && read.is_changed();
        self.reads.extract_if(.., changed).map(|read| read.operation).collect()
    }
}

/// A number that depends on all bytes.
///
/// # Safety
/// `pointer` must be valid for reads of `bytes` bytes.
unsafe fn digest(pointer: HostPointer, bytes: u64) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut digest = bytes;
    let mut mix = |word: u64| digest = (digest ^ word).wrapping_mul(PRIME).rotate_left(29);
    let (words, rest) = (bytes / 8, bytes % 8);
    for word in 0..words {
        // SAFETY: inside the bytes that the caller vouches for.
        mix(unsafe { pointer.add(word as usize * 8).0.cast::<u64>().read_unaligned() });
    }
    for byte in 0..rest {
        // SAFETY: as above.
        mix(u64::from(unsafe { pointer.add((words * 8 + byte) as usize).0.read() }));
    }
    digest
}

impl State {
    /// A copy is about to be enqueued that reads these bytes of a pinned range.
    pub(crate) fn check_source(&mut self, range: u64, start: u64, bytes: u64) {
        let Self { host, waited, callbacks, .. } = self;
        let Some(sources) = host.sources(range) else { return };
        for earlier in sources.changed(start, start + bytes, &waited.past, *callbacks) {
            self.found(Misuse::HostRace, start, bytes, Some(earlier));
        }
    }

    /// It has been enqueued, and is to be done at the point.
    pub(crate) fn remember_source(&mut self, range: u64, pointer: HostPointer, bytes: u64, point: Point) {
        let operation = Operation { id: self.operations, entry: self.entry, stream: self.stream_id(point.queue) };
        let Self { host, waited, callbacks, .. } = self;
        let Some(sources) = host.sources(range) else { return };
        let (start, end) = (pointer.address(), pointer.address() + bytes);
        if !sources.is_still(start, end, &waited.past) {
            return;
        }
        if sources.reads.len() == REMEMBERED {
            sources.reads.remove(0);
        }
        // SAFETY: the copy was enqueued for these bytes, which are pinned.
        let digest = unsafe { digest(pointer, bytes) };
        sources.reads.push(Source { start, end, pointer, digest, point, operation, callbacks: *callbacks });
    }

    /// An operation, to be done at the point, may write these bytes of a pinned range.
    pub(crate) fn note_written(&mut self, range: u64, start: u64, bytes: u64, point: Point) {
        let Self { host, waited, .. } = self;
        if let Some(sources) = host.sources(range) {
            sources.written(start, start.saturating_add(bytes), point, &waited.past);
        }
    }

    /// The copy under way reads its source.
    pub(crate) fn check_own_source(&mut self, range: u64) {
        let (point, callbacks) = (self.running_point(), self.callbacks);
        let Some(sources) = self.host.sources(range) else { return };
        let own = |read: &mut Source| Some(read.point) == point && read.callbacks == callbacks && read.is_changed();
        let changed = sources.reads.extract_if(.., own).next();
        if let Some(Source { start, end, .. }) = changed {
            self.found(Misuse::HostRace, start, end - start, None);
        }
    }
}
