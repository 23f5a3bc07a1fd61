//! Memory that somebody else owns, as another library lends it.

use std::sync::Arc;

use cupool::{Buffer, DeviceSlice, DeviceSliceMut, Error, ForeignBuffer, Stream, StreamHandle};
use cupool_sim::Symbol;

use super::{
    controls::Rule,
    model::Model,
    world::{Any, Held, World},
};

type Home<'g> = Arc<dyn StreamHandle + 'g>;
type Release = Box<dyn FnOnce(&Stream)>;

/// Memory with an owner, and what it should hold.
pub(crate) struct Foreign<'g> {
    buffer: Lent<'g>,
    model: Model,
}

enum Lent<'g> {
    /// The owner frees it on a stream of its own, which knows nothing of the home stream.
    Kept(ForeignBuffer<u8, Buffer<u8>, Home<'g>>),
    /// The owner frees it in the home stream's order.
    InOrder(ForeignBuffer<u8, Release, Home<'g>>),
}

impl Foreign<'_> {
    fn shared(&self) -> (DeviceSlice<'_, u8>, &Model) {
        match &self.buffer {
            Lent::Kept(buffer) => (buffer.as_slice(), &self.model),
            Lent::InOrder(buffer) => (buffer.as_slice(), &self.model),
        }
    }

    fn exclusive(&mut self) -> (DeviceSliceMut<'_, u8>, &mut Model) {
        match &mut self.buffer {
            Lent::Kept(buffer) => (buffer.as_mut_slice(), &mut self.model),
            Lent::InOrder(buffer) => (buffer.as_mut_slice(), &mut self.model),
        }
    }
}

impl<'g> World<'g> {
    pub(crate) fn use_foreign(&mut self) {
        match self.choices.below(10) {
            0..3 if self.foreign.len() < 6 => self.make_foreign(),
            _ if self.foreign.is_empty() => self.make_foreign(),
            3..6 => {
                let mut foreign = self.foreign.swap_remove(self.choices.below(self.foreign.len()));
                match self.choices.below(3) {
                    0 => {
                        let (view, model) = foreign.shared();
                        self.read(view, model);
                    }
                    1 => {
                        let (view, model) = foreign.exclusive();
                        self.write(view, model);
                    }
                    _ => self.lend_foreign(&mut foreign),
                }
                self.foreign.push(foreign);
            }
            6..8 => self.drop_foreign(),
            8 => self.take_back(),
            _ => self.drop_retired(),
        }
    }

    /// Makes a buffer another's, who lends it to some stream.
    fn make_foreign(&mut self) {
        let Some(Held { buffer, model }) = self.take() else { return };
        let Any::Shared(theirs) = buffer else { return self.held.push(Held { buffer, model }) };
        let home = self.any_home();
        home.stream().wait_for(theirs.home()).unwrap();
        let (address, len) = (theirs.as_raw(), theirs.len());
        let buffer = if self.choices.once_in(3) {
            let (address, len, _) = theirs.into_raw_parts();
            // SAFETY: the memory is nobody else's, and what is enqueued on its last stream has all its work before it.
            let release: Release =
                Box::new(move |home| drop(unsafe { Buffer::<u8, _>::from_raw_parts(address, len, home) }));
            // SAFETY: the memory lives until it is released in the stream's order, which comes after its past.
            let buffer = unsafe { ForeignBuffer::with_release(address, len, home, release) };
            Lent::InOrder(buffer.map_err(|(error, _)| error).unwrap())
        } else {
            // SAFETY: its owner leaves the memory alone until it is dropped, and the stream waits for what was done.
            Lent::Kept(unsafe { ForeignBuffer::new(address, len, home, theirs) }.map_err(|(error, _)| error).unwrap())
        };
        self.marks += 1;
        self.foreign.push(Foreign { buffer, model });
    }

    fn lend_foreign(&mut self, foreign: &mut Foreign<'g>) {
        let (stream, Foreign { buffer, model }) = (self.stream(), foreign);
        let lent = match buffer {
            Lent::Kept(buffer) => buffer.on(&stream).map(|mut loan| self.write(loan.as_mut_slice(), model)),
            Lent::InOrder(buffer) => buffer.on(&stream).map(|mut loan| self.write(loan.as_mut_slice(), model)),
        };
        lent.unwrap();
    }

    /// Now and then the mark cannot be made, and the host waits.
    pub(crate) fn drop_foreign(&mut self) {
        let count = self.foreign.len();
        if count > 0 {
            let foreign = self.foreign.swap_remove(self.choices.below(count));
            let _without = self.leave_out(Rule::OwnerMark).or_else(|| self.leave_out(Rule::OwnerQuery));
            let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuEventQuery, 0)]);
            drop(foreign);
        }
    }

    /// The owner gets its memory back, for use on its own stream.
    fn take_back(&mut self) {
        let Foreign { buffer, model } = self.foreign.swap_remove(self.choices.below(self.foreign.len()));
        match buffer {
            Lent::Kept(buffer) => {
                let _without = self.leave_out(Rule::OwnerBack);
                let theirs = buffer.into_owner().map_err(|(error, _): (Error, _)| error).unwrap();
                self.held.push(Held { buffer: Any::Shared(theirs), model });
            }
            buffer @ Lent::InOrder(_) => self.foreign.push(Foreign { buffer, model }),
        }
    }

    pub(crate) fn drop_retired(&mut self) {
        let _without = self.leave_out(Rule::OwnerWait);
        self.ground.context.drop_retired().unwrap();
    }
}
