//! Managed memory, which the host looks into.

use std::sync::Arc;

use cupool::{Error, ManagedBuffer, MemLocation, StreamHandle};
use cupool_sim::Symbol;

use super::{controls::Rule, model::Model, world::World};

type Home<'g> = Arc<dyn StreamHandle + 'g>;

/// Managed memory, and what it should hold.
pub(crate) struct Managed<'g> {
    buffer: ManagedBuffer<u8, Home<'g>>,
    model: Model,
}

impl<'g> World<'g> {
    pub(crate) fn use_managed(&mut self) {
        match self.choices.below(16) {
            0..4 if self.managed.len() < 6 => self.make_managed(),
            _ if self.managed.is_empty() => self.make_managed(),
            4..11 => {
                let mut managed = self.managed.swap_remove(self.choices.below(self.managed.len()));
                self.use_one(&mut managed);
                self.managed.push(managed);
            }
            11 => {
                let Managed { buffer, model } = self.managed.swap_remove(self.choices.below(self.managed.len()));
                let home = self.any_home();
                let _without = self.leave_out(Rule::ManagedMove);
                let buffer = buffer.move_to(home).map_err(|(error, _)| error).unwrap();
                self.managed.push(Managed { buffer, model });
            }
            12 if self.choices.once_in(8) => {
                // The driver waits for the device itself.
                self.ground.context.trim_managed().unwrap();
            }
            _ => {
                self.drop_managed();
                self.make_managed();
            }
        }
    }

    /// From a pool, or from none: then it may have been another's before.
    fn make_managed(&mut self) {
        // Few lengths, so that they recur.
        let len = [20, 3000][self.choices.below(2)];
        let home = self.any_home();
        let without = self.leave_out(Rule::ManagedReuse);
        let buffer = if self.choices.once_in(4) {
            match self.managed_pool.alloc(len, home) {
                Ok(buffer) => buffer.into_managed().map_err(|(error, _): (Error, _)| error).unwrap(),
                Err(error) => panic!("managed memory of {len} bytes: {error}"),
            }
        } else {
            self.marks += 1;
            ManagedBuffer::alloc(len, home).unwrap()
        };
        drop(without);
        let mut managed = Managed { buffer, model: Model::unknown(len) };
        if self.choices.once_in(2) {
            self.write(managed.buffer.as_mut_slice(), &mut managed.model);
        }
        self.managed.push(managed);
    }

    fn use_one(&mut self, managed: &mut Managed<'g>) {
        let Managed { buffer, model } = managed;
        let (start, end) = self.choices.part(model.len());
        match self.choices.below(8) {
            0 => self.read(buffer.as_slice(), model),
            1..3 => self.write(buffer.as_mut_slice(), model),
            3 => {
                let stream = self.stream();
                let mut loan = buffer.on(&stream).unwrap();
                self.write(loan.as_mut_slice(), model);
            }
            4 => {
                let device = self.ground.context.device();
                let location = if self.choices.once_in(2) { MemLocation::Host } else { MemLocation::Device(device) };
                buffer.prefetch(start..end, location).unwrap();
            }
            5 => {
                let bytes = self.choices.bytes(end - start);
                let _without = self.leave_out(Rule::ManagedWrite);
                buffer.as_host_mut_slice().unwrap()[start..end].copy_from_slice(&bytes);
                model.write(start, &bytes);
            }
            _ => {
                let without = self.leave_out(Rule::ManagedRead);
                let seen = buffer.as_host_slice().unwrap();
                drop(without);
                self.expect("managed memory", model, start, &seen[start..end]);
                // The device may read meanwhile.
                self.read(buffer.as_slice(), model);
                self.expect("managed memory", model, start, &seen[start..end]);
            }
        }
    }

    /// Now and then the mark cannot be made, and the host waits.
    pub(crate) fn drop_managed(&mut self) {
        let count = self.managed.len();
        if count > 0 {
            let managed = self.managed.swap_remove(self.choices.below(count));
            let _without = self.leave_out(Rule::ManagedMark);
            let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuStreamIsCapturing, 0)]);
            if self.choices.once_in(2) {
                drop(managed);
            } else {
                managed.buffer.free().unwrap();
            }
        }
    }
}
