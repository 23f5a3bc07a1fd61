//! What can be done with views of memory, whoever lends them.

use cupool::{DeviceSlice, DeviceSliceMut, Stream};
use cupool_sim::Symbol;

use super::{
    controls::{Ignored, Rule},
    model::Model,
    world::World,
};

impl<'g> World<'g> {
    /// Reads part of a view, into host memory of some kind or into another buffer.
    pub(crate) fn read(&mut self, view: DeviceSlice<'_, u8>, model: &Model) {
        let (start, end) = self.choices.part(model.len());
        let part = view.slice(start..end).unwrap();
        match self.choices.below(6) {
            0..2 => {
                let _without = self.leave_out(Rule::StagingFilled);
                let found = part.to_vec().unwrap();
                self.expect("to_vec", model, start, &found);
            }
            2 => {
                let mut found = vec![0; end - start];
                {
                    let _without = self.leave_out(Rule::StagingFilled);
                    part.copy_to_host(&mut found).unwrap();
                }
                self.expect("copy_to_host", model, start, &found);
            }
            3 => self.read_to_pin(part, model, start),
            _ => self.copy_elsewhere(part, model, start),
        }
    }

    /// Copies part of a view to another buffer.
    fn copy_elsewhere(&mut self, part: DeviceSlice<'_, u8>, model: &Model, start: usize) {
        let Some(mut held) = self.take() else { return };
        let (target, of_target) = held.exclusive();
        let len = part.len().min(of_target.len());
        let to = self.choices.below(of_target.len() - len + 1);
        let _without = self.leave_out_of_copy(target.home(), part.home());
        let _hindered = self.hinder([(Symbol::cuEventRecord, 1), (Symbol::cuStreamWaitEvent, 1)]);
        target.slice(to..to + len).unwrap().copy_from(part.slice(..len).unwrap()).unwrap();
        of_target.copy(to, model, start, len);
        drop((_without, _hindered));
        self.held.push(held);
    }

    /// Writes part of a view, or reads it.
    pub(crate) fn write(&mut self, view: DeviceSliceMut<'_, u8>, model: &mut Model) {
        let (start, end) = self.choices.part(model.len());
        match self.choices.below(12) {
            0..3 => self.fill(view, model, start, end),
            3 => {
                view.slice(start..end).unwrap().fill_zero().unwrap();
                model.fill(start, end, &[0]);
            }
            4..6 => {
                let bytes = self.choices.bytes(end - start);
                let _without = self.leave_out(Rule::StagingReuse);
                let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuEventRecord, 1)]);
                view.slice(start..end).unwrap().copy_from_host(&bytes).unwrap();
                model.write(start, &bytes);
            }
            6..9 => {
                let Some(held) = self.take() else { return };
                let (source, of_source) = held.shared();
                let len = (end - start).min(of_source.len());
                let from = self.choices.below(of_source.len() - len + 1);
                let _without = self.leave_out_of_copy(view.home(), source.home());
                let _hindered = self.hinder([(Symbol::cuEventRecord, 1), (Symbol::cuStreamWaitEvent, 1)]);
                let mut part = view.slice(start..start + len).unwrap();
                part.copy_from(source.slice(from..from + len).unwrap()).unwrap();
                model.copy(start, of_source, from, len);
                drop((_without, _hindered));
                self.held.push(held);
            }
            9 => {
                // From one half to the other.
                let (mut low, mut high) = view.split_at(model.len() / 2).unwrap();
                let len = low.len().min(high.len());
                let half = low.len();
                if self.choices.once_in(2) {
                    low.slice(..len).unwrap().copy_from(high.reborrow().as_slice().slice(..len).unwrap()).unwrap();
                    model.copy_within(0, half, len);
                } else {
                    high.reborrow().slice(..len).unwrap().copy_from(low.as_slice().slice(..len).unwrap()).unwrap();
                    low.reborrow().slice(..0).unwrap().fill(0).unwrap();
                    model.copy_within(half, 0, len);
                }
            }
            10 => self.write_from_pin(view.slice(start..end).unwrap(), model, start),
            _ => self.read(view.as_slice(), model),
        }
    }

    /// Fills with the widest pattern that fits.
    fn fill(&mut self, view: DeviceSliceMut<'_, u8>, model: &mut Model, start: usize, end: usize) {
        let value = self.choices.next() as u32;
        let unit = value.to_le_bytes();
        let mut part = view.slice(start..end).unwrap();
        if let (true, Ok(mut words)) = (self.choices.once_in(2), part.reborrow().cast::<u32>()) {
            words.fill(value).unwrap();
            model.fill(start, end, &unit);
        } else if let (true, Ok(mut halves)) = (self.choices.once_in(2), part.reborrow().cast::<u16>()) {
            halves.fill(value as u16).unwrap();
            model.fill(start, end, &unit[..2]);
        } else {
            part.fill(value as u8).unwrap();
            model.fill(start, end, &unit[..1]);
        }
    }

    /// Leaves out a fence of a copy, if there is one.
    fn leave_out_of_copy(&self, to: &Stream, from: &Stream) -> Option<Ignored<'g>> {
        if to.is_same(from) {
            return None;
        }
        [Rule::CopyBefore, Rule::CopyAfter, Rule::CopyMark].into_iter().find_map(|rule| self.leave_out(rule))
    }
}
