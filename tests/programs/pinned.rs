//! Pinned host memory, and copies that go on after the call.

use cupool::{DeviceSlice, DeviceSliceMut, PinnedBuffer, Registered};
use cupool_sim::Symbol;

use super::{controls::Rule, model::Model, world::World};

/// Pinned memory, and what it should hold.
pub(crate) struct Pin {
    buffer: PinnedBuffer<u8>,
    model: Model,
}

impl World<'_> {
    /// A pinned buffer of that many bytes, an old one if there is one.
    fn pin(&mut self, len: usize) -> Pin {
        let fitting: Vec<usize> = (0..self.pins.len()).filter(|at| self.pins[*at].model.len() == len).collect();
        if !fitting.is_empty() && !self.choices.once_in(4) {
            return self.pins.swap_remove(fitting[self.choices.below(fitting.len())]);
        }
        if self.pins.len() > 12 {
            let at = self.choices.below(self.pins.len());
            self.pins.swap_remove(at);
        }
        let bytes = self.choices.bytes(len);
        let _without = self.leave_out(Rule::PinnedReuse);
        let buffer = PinnedBuffer::from_slice(&self.ground.context, &bytes).unwrap();
        Pin { buffer, model: Model::of(&bytes) }
    }

    pub(crate) fn read_to_pin(&mut self, view: DeviceSlice<'_, u8>, model: &Model, start: usize) {
        let len = view.len().min(PINNED);
        let mut pin = self.pin(len);
        {
            let _without = self.leave_out(Rule::PinnedChain);
            let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuEventRecord, 0)]);
            view.slice(..len).unwrap().copy_to_pinned(&mut pin.buffer).unwrap();
        }
        pin.model.copy(0, model, start, len);
        self.keep(pin);
    }

    pub(crate) fn write_from_pin(&mut self, view: DeviceSliceMut<'_, u8>, model: &mut Model, start: usize) {
        let len = view.len().min(PINNED);
        let pin = self.pin(len);
        {
            let _without = self.leave_out(Rule::PinnedChain);
            let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuEventRecord, 0)]);
            view.slice(..len).unwrap().copy_from_pinned(&pin.buffer).unwrap();
        }
        model.copy(start, &pin.model, 0, len);
        self.keep(pin);
    }

    /// Now and then it is dropped at once, with the copy under way.
    fn keep(&mut self, pin: Pin) {
        if !self.choices.once_in(8) {
            self.pins.push(pin);
        }
    }

    /// Copies from and to pinned memory of lengths that recur, looks at it, and changes it.
    pub(crate) fn use_pins(&mut self) {
        match self.choices.below(10) {
            0..6 => {
                let Some(mut held) = self.take() else { return };
                let (view, model) = held.exclusive();
                let len = [1, 16, 100][self.choices.below(3)].min(model.len());
                if self.choices.once_in(2) {
                    self.write_from_pin(view.slice(..len).unwrap(), model, 0);
                } else {
                    self.read_to_pin(view.as_slice().slice(..len).unwrap(), model, 0);
                }
                self.held.push(held);
            }
            6..9 if !self.pins.is_empty() => {
                let mut pin = self.pins.swap_remove(self.choices.below(self.pins.len()));
                let changes = self.choices.once_in(2);
                {
                    let _without = self.leave_out(if changes { Rule::PinnedWrite } else { Rule::PinnedRead });
                    let found =
                        if changes { pin.buffer.as_mut_slice().unwrap() } else { pin.buffer.as_slice().unwrap() };
                    self.expect("pinned memory", &pin.model, 0, found);
                }
                if changes {
                    let bytes = self.choices.bytes(pin.model.len());
                    let _without = self.leave_out(Rule::PinnedWrite);
                    pin.buffer.as_mut_slice().unwrap().copy_from_slice(&bytes);
                    pin.model.write(0, &bytes);
                }
                self.keep(pin);
            }
            9 => self.register(),
            _ => {}
        }
    }

    /// Copies from memory that is page-locked where it lies.
    fn register(&mut self) {
        let Some(mut held) = self.take() else { return };
        let (mut view, model) = held.exclusive();
        let bytes = self.choices.bytes(model.len());
        match Registered::from_vec(&self.ground.context, bytes) {
            Ok(mut registered) => {
                view.copy_from_host(&registered).unwrap();
                model.write(0, &registered);
                registered.fill(1);
                view.as_slice().copy_to_host(&mut registered).unwrap();
                self.expect("registered memory", model, 0, &registered);
            }
            Err((error, _)) => panic!("{error}"),
        }
        self.held.push(held);
    }
}

/// Pinned buffers are no longer.
const PINNED: usize = 10_000;
