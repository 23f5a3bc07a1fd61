//! Buffers that are lent to the default streams, for libraries that were given no other.

use core::mem;

use cupool::{Buffer, DefaultStream, DefaultStreamKind, LegacyStream, PerThreadStream, StreamHandle};
use cupool_sim::{CUresult, Symbol};

use super::{
    controls::Rule,
    model::Model,
    world::{Any, World, each},
};

impl World<'_> {
    pub(crate) fn lend_default(&mut self) {
        let context = &self.ground.context;
        if self.choices.once_in(2) {
            self.lend_to(&LegacyStream::new(context).unwrap());
        } else {
            self.lend_to(&PerThreadStream::new(context).unwrap());
        }
    }

    fn lend_to<K: DefaultStreamKind>(&mut self, stream: &DefaultStream<K>) {
        let Some(mut held) = self.take() else { return };
        let Some(source) = self.take() else { return self.held.push(held) };
        let (model, of_source) = (&mut held.model, &source.model);
        let kept = each!(&mut held.buffer, target => {
            each!(&source.buffer, source => self.copy_there(stream, target, model, source, of_source))
        });
        self.held.push(source);
        if kept || held.model.len() == 0 {
            self.held.push(held);
        } else {
            self.give_up(held);
        }
    }

    /// Copies on a default stream, as a library does; answers whether the target came back.
    fn copy_there<K: DefaultStreamKind, T: StreamHandle, S: StreamHandle>(
        &mut self,
        stream: &DefaultStream<K>,
        target: &mut Buffer<u8, T>,
        model: &mut Model,
        source: &Buffer<u8, S>,
        of_source: &Model,
    ) -> bool {
        let (to, from) = {
            let _without = self.leave_out(Rule::DefaultLoanStart);
            (target.on_default(stream).unwrap(), source.read_on_default(stream).unwrap())
        };
        let len = model.len().min(of_source.len());
        if len > 0 {
            let copy = stream.driver().functions().cuMemcpyDtoDAsync;
            // SAFETY: both are as long, and lent to the stream.
            let code = stream
                .context()
                .with_current(|| Ok(unsafe { copy(to.as_raw(), from.as_raw(), len, stream.as_raw()) }))
                .unwrap();
            assert_eq!(code, CUresult::CUDA_SUCCESS);
            model.copy(0, of_source, 0, len);
        }
        drop(from);
        if self.choices.once_in(20) {
            mem::forget(to);
            return false;
        }
        let _without = self.leave_out(Rule::DefaultLoanEnd);
        let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuStreamWaitEvent, 0)]);
        drop(to);
        true
    }
}
