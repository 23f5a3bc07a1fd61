//! Streams and events that wait for each other, waits of the host, and questions to pools.

use std::sync::Arc;

use cupool::{Stream, StreamOptions};

use super::world::World;

impl World<'_> {
    pub(crate) fn order(&mut self) {
        let (stream, other) = (self.stream(), self.stream());
        let event = self.choices.below(self.events.len());
        match self.choices.below(12) {
            0 => stream.synchronize().unwrap(),
            1..4 => {
                stream.query().unwrap();
            }
            4..6 => stream.wait_for(&other).unwrap(),
            6..8 => self.events[event].record(&stream).unwrap(),
            8..10 => stream.wait(&self.events[event]).unwrap(),
            10 => {
                self.events[event].query().unwrap();
            }
            _ if self.choices.once_in(4) => self.ground.context.synchronize().unwrap(),
            // It lets the host know that all before it is done, so there must not be many.
            _ if self.choices.once_in(8) => stream.call_host(|| ()).unwrap(),
            _ => self.events[event].synchronize().unwrap(),
        }
    }

    pub(crate) fn ask_pool(&mut self) {
        let at = self.choices.below(self.pools.len());
        let pool = &mut self.pools[at];
        match self.choices.below(4) {
            0 => {
                let trimmed = pool.trim_to([0, 1 << 20][self.choices.below(2)]).unwrap();
                assert!(trimmed.used <= trimmed.reserved);
            }
            1 => {
                let usage = pool.usage().unwrap();
                assert!(usage.used <= usage.reserved);
            }
            2 => pool.set_release_threshold([0, u64::MAX][self.choices.below(2)]).unwrap(),
            _ => pool.set_rescue(self.choices.once_in(2)),
        }
    }

    /// Lets go of a stream, which lives on if a buffer holds it, and makes another.
    pub(crate) fn change_streams(&mut self) {
        let at = self.choices.below(self.shared.len());
        let options = StreamOptions { blocking: self.choices.once_in(4), priority: -1 };
        self.shared[at] = Arc::new(Stream::with_options(&self.ground.context, options).unwrap());
    }
}
