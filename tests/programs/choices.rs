//! Choices that a seed makes.

/// A stream of choices.
#[derive(Clone)]
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (SplitMix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// True once in `often` times.
    pub(crate) fn once_in(&mut self, often: usize) -> bool {
        self.below(often) == 0
    }

    /// A part of `len` elements: its start and its end.
    pub(crate) fn part(&mut self, len: usize) -> (usize, usize) {
        if self.once_in(3) {
            return (0, len);
        }
        let start = self.below(len + 1);
        (start, start + self.below(len - start + 1))
    }

    /// Bytes that differ from one call to the next.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.next();
        (0..len as u64).map(|at| (first.wrapping_add(at).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
    }
}
