//! What memory is expected to hold.

/// Bytes, where they are known: what was never written may be anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    bytes: Vec<u8>,
    known: Vec<bool>,
}

impl Model {
    pub(crate) fn unknown(len: usize) -> Self {
        Self { bytes: vec![0; len], known: vec![false; len] }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), known: vec![true; bytes.len()] }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn write(&mut self, start: usize, bytes: &[u8]) {
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.known[start..start + bytes.len()].fill(true);
    }

    /// Repeats `unit`.
    pub(crate) fn fill(&mut self, start: usize, end: usize, unit: &[u8]) {
        for (byte, value) in self.bytes[start..end].iter_mut().zip(unit.iter().cycle()) {
            *byte = *value;
        }
        self.known[start..end].fill(true);
    }

    /// Changes every byte, as far as it is known.
    #[cfg(feature = "launch")]
    pub(crate) fn map(&mut self, start: usize, end: usize, change: impl Fn(u8) -> u8) {
        for byte in &mut self.bytes[start..end] {
            *byte = change(*byte);
        }
    }

    /// Adds the first bytes of another.
    #[cfg(feature = "launch")]
    pub(crate) fn add(&mut self, other: &Self, len: usize) {
        for at in 0..len {
            self.bytes[at] = self.bytes[at].wrapping_add(other.bytes[at]);
            self.known[at] &= other.known[at];
        }
    }

    pub(crate) fn copy(&mut self, start: usize, source: &Self, from: usize, len: usize) {
        self.bytes[start..start + len].copy_from_slice(&source.bytes[from..from + len]);
        self.known[start..start + len].copy_from_slice(&source.known[from..from + len]);
    }

    pub(crate) fn copy_within(&mut self, start: usize, from: usize, len: usize) {
        self.bytes.copy_within(from..from + len, start);
        self.known.copy_within(from..from + len, start);
    }

    /// The first byte that is not as expected.
    pub(crate) fn differs(&self, start: usize, found: &[u8]) -> Option<usize> {
        let expected = self.bytes[start..].iter().zip(&self.known[start..]);
        let at = expected.zip(found).position(|((byte, known), found)| *known && byte != found)?;
        Some(start + at)
    }
}
