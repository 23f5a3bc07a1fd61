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

/// Those of one range that the host has not waited for, the oldest first.
#[derive(Debug)]
pub(crate) struct Sources(Vec<Source>);

/// As many are remembered; older ones are forgotten.
const REMEMBERED: usize = 16;

impl Source {
    fn is_changed(&self) -> bool {
        // SAFETY: the range stays pinned for as long as the list exists that this is in.
        self.digest != unsafe { digest(self.pointer, self.end - self.start) }
    }
}

impl Sources {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// An operation may write these bytes: what becomes of them is no longer known.
    fn written(&mut self, start: u64, end: u64) {
        self.0.retain(|source| source.end <= start || end <= source.start);
    }

    /// Takes out the copies whose bytes in that part have been changed.
    fn changed(&mut self, start: u64, end: u64, waited: &Past) -> Vec<Operation> {
        self.0.retain(|source| !waited.covers(source.point));
        let changed = |source: &mut Source| source.start < end && start < source.end && source.is_changed();
        self.0.extract_if(.., changed).map(|source| source.operation).collect()
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
    pub(crate) fn check_source(&mut self, range: u64, pointer: HostPointer, bytes: u64) {
        let Self { host, waited, .. } = self;
        let Some(sources) = host.sources(range) else { return };
        let start = pointer.address();
        for earlier in sources.changed(start, start + bytes, &waited.past) {
            self.found(Misuse::HostRace, start, bytes, Some(earlier));
        }
    }

    /// It has been enqueued, and is to be done at the point.
    pub(crate) fn remember_source(&mut self, range: u64, pointer: HostPointer, bytes: u64, point: Point) {
        let operation = Operation { id: self.operations, entry: self.entry, stream: self.stream_id(point.queue) };
        let callbacks = self.callbacks;
        let Some(sources) = self.host.sources(range) else { return };
        if sources.0.len() == REMEMBERED {
            sources.0.remove(0);
        }
        let start = pointer.address();
        // SAFETY: the copy was enqueued for these bytes, which are pinned.
        let digest = unsafe { digest(pointer, bytes) };
        sources.0.push(Source { start, end: start + bytes, pointer, digest, point, operation, callbacks });
    }

    /// An operation has been enqueued that may write these bytes of a pinned range.
    pub(crate) fn forget_sources(&mut self, range: u64, start: u64, bytes: u64) {
        if let Some(sources) = self.host.sources(range) {
            sources.written(start, start + bytes);
        }
    }

    /// The copy under way reads its source.
    pub(crate) fn check_own_source(&mut self, range: u64) {
        let (point, callbacks) = (self.running_point(), self.callbacks);
        let Some(sources) = self.host.sources(range) else { return };
        let at = sources.0.iter().position(|source| Some(source.point) == point);
        let Some(source) = at.and_then(|at| sources.0.get(at)) else { return };
        if source.callbacks == callbacks && source.is_changed() {
            let (start, bytes) = (source.start, source.end - source.start);
            at.map(|at| sources.0.remove(at));
            self.found(Misuse::HostRace, start, bytes, None);
        }
    }
}
