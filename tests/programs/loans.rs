//! Buffers that are lent to other streams, moved there, or handed to another thread.

use core::mem;
use std::{sync::Arc, thread};

use cupool::{Buffer, Error, Stream, StreamHandle};
use cupool_sim::Symbol;

use super::{
    choices::Choices,
    controls::Rule,
    model::Model,
    world::{Any, Held, World, each},
};

impl<'g> World<'g> {
    /// Once in a while a loan is forgotten.
    fn forgets(&mut self) -> bool {
        self.choices.once_in(12)
    }

    pub(crate) fn lend(&mut self, depth: usize) {
        let Some(mut held) = self.take() else { return };
        let model = &mut held.model;
        let kept = each!(&mut held.buffer, buffer => self.lend_buffer(buffer, model, depth));
        if kept || held.model.len() == 0 {
            self.held.push(held);
        } else {
            self.give_up(held);
        }
    }

    /// Lends a buffer exclusively; answers whether it came back.
    fn lend_buffer<S: StreamHandle>(&mut self, buffer: &mut Buffer<u8, S>, model: &mut Model, depth: usize) -> bool {
        let stream = self.stream();
        let mut loan = {
            let _without = self.leave_out(Rule::LoanStart);
            buffer.on(&stream).unwrap()
        };
        for _ in 0..self.choices.below(4) {
            if self.choices.once_in(3) {
                self.step(depth + 1);
            } else {
                self.write(loan.as_mut_slice(), model);
            }
        }
        if self.forgets() {
            mem::forget(loan);
            return false;
        }
        let _without = self.leave_out(Rule::LoanEnd);
        let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuStreamWaitEvent, 0)]);
        drop(loan);
        true
    }

    /// Two loans at once, that end in any order.
    pub(crate) fn lend_two(&mut self, depth: usize) {
        let (Some(mut a), Some(mut b)) = (self.take(), self.take()) else { return };
        let (streams, first) = ([self.stream(), self.stream()], self.choices.once_in(2));
        let of_b = &mut b.model;
        each!(&mut b.buffer, buffer_b => {
            let mut loan_b = buffer_b.on(&streams[1]).unwrap();
            {
                let of_a = &mut a.model;
                each!(&mut a.buffer, buffer_a => {
                    let mut loan_a = buffer_a.on(&streams[0]).unwrap();
                    self.write(loan_a.as_mut_slice(), of_a);
                    self.write(loan_b.as_mut_slice(), of_b);
                    let len = loan_a.len().min(loan_b.len());
                    let from = loan_a.as_slice().slice(..len).unwrap();
                    loan_b.as_mut_slice().slice(..len).unwrap().copy_from(from).unwrap();
                    of_b.copy(0, of_a, 0, len);
                    if first {
                        drop(loan_b);
                        self.step(depth + 1);
                        self.write(loan_a.as_mut_slice(), of_a);
                        drop(loan_a);
                    } else {
                        drop(loan_a);
                        self.step(depth + 1);
                        self.write(loan_b.as_mut_slice(), of_b);
                        drop(loan_b);
                    }
                });
            }
        });
        self.held.extend([a, b]);
    }

    pub(crate) fn lend_shared(&mut self, depth: usize) {
        let Some(held) = self.take() else { return };
        let Held { buffer, model } = &held;
        let forgotten = each!(buffer, buffer => self.lend_buffer_shared(buffer, model, depth));
        if !forgotten || model.len() == 0 {
            return self.held.push(held);
        }
        // It can still be read, until it is used exclusively.
        for _ in 0..self.choices.below(3) {
            let (view, model) = held.shared();
            self.read(view, model);
        }
        self.give_up(held);
    }

    /// Finds that a buffer's loan was forgotten: nothing can be done with it any more, and its memory is never freed.
    pub(crate) fn give_up(&mut self, mut held: Held<'g>) {
        self.leaked += 1;
        let stream = self.stream();
        if self.choices.once_in(2) {
            let (mut view, model) = held.exclusive();
            assert_eq!(view.fill_zero(), Err(Error::LoanForgotten));
            assert_eq!(view.copy_from_host(&vec![0; model.len()]), Err(Error::LoanForgotten));
            assert_eq!(view.as_slice().to_vec(), Err(Error::LoanForgotten));
            each!(&mut held.buffer, buffer => assert_eq!(buffer.on(&stream).err(), Some(Error::LoanForgotten)));
        }
        match self.choices.below(3) {
            0 => self.lost.push(held),
            1 => drop(held),
            _ => each!(held.buffer, buffer => assert_eq!(buffer.free(), Err(Error::LoanForgotten))),
        }
    }

    /// Lends a buffer to one or two streams for reading; answers whether a loan was forgotten.
    fn lend_buffer_shared<S: StreamHandle>(&mut self, buffer: &Buffer<u8, S>, model: &Model, depth: usize) -> bool {
        let streams = [self.stream(), self.stream()];
        let count = 1 + self.choices.below(2);
        let mut loans: Vec<_> = streams[..count]
            .iter()
            .map(|stream| {
                let _without = self.leave_out(Rule::SharedLoanStart);
                buffer.read_on(stream).unwrap()
            })
            .collect();
        let mut forgotten = false;
        while !loans.is_empty() {
            match self.choices.below(6) {
                0 => self.step(depth + 1),
                1 => self.read(buffer.as_slice(), model),
                2..4 => {
                    let at = self.choices.below(loans.len());
                    self.read(loans[at].as_slice(), model);
                }
                _ => {
                    let loan = loans.swap_remove(self.choices.below(loans.len()));
                    if self.forgets() {
                        mem::forget(loan);
                        forgotten = true;
                    } else {
                        let _without = self.leave_out(Rule::SharedLoanEnd);
                        let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuStreamWaitEvent, 0)]);
                        drop(loan);
                    }
                }
            }
        }
        forgotten
    }

    /// Moves a buffer to another home, and to another way of holding it.
    pub(crate) fn change_home(&mut self) {
        let Some(held) = self.take() else { return };
        let _without = self.leave_out(Rule::Move);
        let model = held.model;
        let fixed = &self.ground.streams[self.choices.below(self.ground.streams.len())];
        let shared = Arc::clone(&self.shared[self.choices.below(self.shared.len())]);
        let buffer = if self.choices.once_in(2) {
            Any::Borrowed(each!(held.buffer, buffer => buffer.move_to(fixed).map_err(|(error, _)| error).unwrap()))
        } else {
            Any::Shared(each!(held.buffer, buffer => buffer.move_to(shared).map_err(|(error, _)| error).unwrap()))
        };
        drop(_without);
        self.held.push(Held { buffer, model });
    }

    /// There and back, as far as lengths allow.
    pub(crate) fn cast(&mut self) {
        fn through<S: StreamHandle>(buffer: Buffer<u8, S>) -> Buffer<u8, S> {
            match buffer.cast::<u64>() {
                Ok(wide) => wide.cast().map_err(|(error, _)| error).unwrap(),
                Err((_, buffer)) => buffer,
            }
        }
        let Some(mut held) = self.take() else { return };
        held.buffer = match held.buffer {
            Any::Borrowed(buffer) => Any::Borrowed(through(buffer)),
            Any::Foreign(buffer) => Any::Foreign(through(buffer)),
            Any::Shared(buffer) => Any::Shared(through(buffer)),
            Any::Erased(buffer) => Any::Erased(through(buffer)),
        };
        self.held.push(held);
    }

    /// Has another thread use a buffer and give it back, on a stream of its own or the buffer's.
    pub(crate) fn hand_over(&mut self) {
        let Some(mut held) = self.take() else { return };
        if let Any::Shared(mut buffer) = held.buffer {
            let mut choices = Choices::new(self.choices.next());
            let mut model = held.model;
            let context = &self.ground.context;
            let work = || {
                let own = Arc::new(Stream::new(context).unwrap());
                let bytes = choices.bytes(model.len());
                buffer.copy_from_host(&bytes).unwrap();
                model.write(0, &bytes);
                let value = choices.next() as u8;
                buffer.on(&own).unwrap().as_mut_slice().fill(value).unwrap();
                model.fill(0, model.len(), &[value]);
                let buffer =
                    if choices.once_in(2) { buffer.move_to(own).map_err(|(error, _)| error).unwrap() } else { buffer };
                (buffer, model)
            };
            let (buffer, model) = thread::scope(|scope| scope.spawn(work).join().unwrap());
            held = Held { buffer: Any::Shared(buffer), model };
        }
        self.held.push(held);
    }
}
