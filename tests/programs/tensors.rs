//! Buffers that become tensors, in the hands of consumers of any kind: other libraries, and this crate.

use std::sync::Arc;

use cupool::{
    Buffer, LegacyStream, PerThreadStream, Stream, StreamHandle,
    cuda_sys::CUstream,
    dlpack::{ConsumerStream, ImportedTensor, ManagedTensor},
};
use cupool_sim::{CUresult, Symbol};

use super::{
    controls::Rule,
    model::Model,
    world::{Any, AnyStream, Held, World},
};

type Home<'g> = Arc<dyn StreamHandle + 'g>;

/// A tensor, and what it should hold.
pub(crate) struct Tensor<'g> {
    holder: Holder<'g>,
    model: Model,
}

enum Holder<'g> {
    /// This crate.
    Imported(ImportedTensor<u8, Home<'g>>),
    /// A library, which calls the deleter as soon as it has enqueued its last work.
    Library(ManagedTensor, Consumer<'g>),
}

/// Where a library does its work.
#[derive(Clone, Copy)]
enum Consumer<'g> {
    /// As it has said.
    Named(&'g Stream),
    /// It has not said so, and orders the beginning itself.
    Unnamed(&'g Stream),
    Legacy,
    PerThread,
}

impl<'g> World<'g> {
    pub(crate) fn use_tensors(&mut self) {
        match self.choices.below(10) {
            0..2 if self.tensors.len() < 6 => self.export_to_library(),
            2..4 if self.tensors.len() < 6 => self.export_and_import(),
            _ if self.tensors.is_empty() => self.export_and_import(),
            0..7 => {
                let at = self.choices.below(self.tensors.len());
                let tensor = self.tensors.swap_remove(at);
                let tensor = self.use_tensor(tensor);
                self.tensors.push(tensor);
            }
            _ => self.drop_tensor(),
        }
    }

    /// A buffer that may go to another thread.
    fn take_sendable(&mut self) -> Option<(Buffer<u8>, Model)> {
        match self.take()? {
            Held { buffer: Any::Shared(buffer), model } => Some((buffer, model)),
            other => {
                self.held.push(other);
                None
            }
        }
    }

    fn export(&mut self, buffer: Buffer<u8>, consumer: ConsumerStream) -> ManagedTensor {
        self.marks += 2;
        let shape = [buffer.len()];
        let _without = self.leave_out(Rule::TensorStart);
        buffer.into_dlpack(&shape, consumer).map_err(|(error, _)| error).unwrap()
    }

    fn export_to_library(&mut self) {
        let Some((buffer, model)) = self.take_sendable() else { return };
        let stream = &self.ground.streams[self.choices.below(self.ground.streams.len())];
        let (consumer, named) = match self.choices.below(6) {
            // SAFETY: the ground keeps its streams.
            0..2 => (Consumer::Named(stream), unsafe { ConsumerStream::from_raw(stream.as_raw()) }),
            2..4 => {
                stream.wait_for(buffer.home()).unwrap();
                (Consumer::Unnamed(stream), ConsumerStream::UNKNOWN)
            }
            4 => (Consumer::Legacy, ConsumerStream::LEGACY),
            _ => (Consumer::PerThread, ConsumerStream::PER_THREAD),
        };
        let tensor = self.export(buffer, named);
        self.tensors.push(Tensor { holder: Holder::Library(tensor, consumer), model });
    }

    fn export_and_import(&mut self) {
        let Some((buffer, model)) = self.take_sendable() else { return };
        let stream = self.stream();
        let named = match &stream {
            // SAFETY: the ground keeps its streams.
            AnyStream::Fixed(stream) if self.choices.once_in(2) => unsafe { ConsumerStream::from_raw(stream.as_raw()) },
            AnyStream::Shared(stream) if self.choices.once_in(2) => {
                // SAFETY: it is live; nobody keeps it until the deleter is called.
                unsafe { ConsumerStream::from_raw(stream.as_raw()) }.until_export()
            }
            // The home stream does not learn of the work: when the deleter is called, it must be done.
            _ => {
                stream.wait_for(buffer.home()).unwrap();
                ConsumerStream::HOME
            }
        };
        let tensor = self.export(buffer, named);
        let home: Home<'g> = match stream {
            AnyStream::Fixed(stream) => Arc::new(stream),
            AnyStream::Shared(stream) => Arc::new(stream),
        };
        // SAFETY: the tensor is used in the order of that stream, which has waited for what was done before.
        let tensor = unsafe { ImportedTensor::from_raw(tensor.into_raw(), home) }.unwrap();
        assert_eq!(tensor.shape(), [model.len()]);
        self.tensors.push(Tensor { holder: Holder::Imported(tensor), model });
    }

    fn use_tensor(&mut self, tensor: Tensor<'g>) -> Tensor<'g> {
        let Tensor { mut holder, mut model } = tensor;
        match &mut holder {
            Holder::Imported(tensor) if self.choices.once_in(2) => self.read(tensor.as_slice(), &model),
            Holder::Imported(tensor) => self.write(tensor.as_mut_slice().unwrap(), &mut model),
            Holder::Library(tensor, consumer) => self.fill_as_library(tensor, *consumer, &mut model),
        }
        match holder {
            // It is passed on.
            Holder::Library(tensor, Consumer::Named(stream)) if self.choices.once_in(4) => {
                // SAFETY: all of it was done on that stream.
                let tensor = unsafe { ImportedTensor::from_managed(tensor, Arc::new(stream) as Home<'g>) };
                Tensor { holder: Holder::Imported(tensor.unwrap()), model }
            }
            holder => Tensor { holder, model },
        }
    }

    fn fill_as_library(&mut self, tensor: &ManagedTensor, consumer: Consumer<'g>, model: &mut Model) {
        let (start, end) = self.choices.part(model.len());
        let value = self.choices.next() as u8;
        if start == end {
            return;
        }
        let context = &self.ground.context;
        let stream: CUstream = match consumer {
            Consumer::Named(stream) | Consumer::Unnamed(stream) => stream.as_raw(),
            Consumer::Legacy => LegacyStream::new(context).unwrap().as_raw(),
            Consumer::PerThread => PerThreadStream::new(context).unwrap().as_raw(),
        };
        // SAFETY: the tensor is live, and one of this crate's.
        let address = unsafe { (*tensor.as_raw()).dl_tensor.data }.addr() as u64;
        let fill = context.driver().functions().cuMemsetD8Async;
        // SAFETY: the part is the tensor's, and the stream live.
        let fill = || Ok(unsafe { fill(address + start as u64, value, end - start, stream) });
        assert_eq!(context.with_current(fill).unwrap(), CUresult::CUDA_SUCCESS);
        model.fill(start, end, &[value]);
    }

    /// The deleter is called, now or when the device is done.
    pub(crate) fn drop_tensor(&mut self) {
        let count = self.tensors.len();
        if count == 0 {
            return;
        }
        let at = self.choices.below(count);
        let Tensor { holder, mut model } = self.tensors.swap_remove(at);
        if let Holder::Library(tensor, consumer) = &holder {
            self.fill_as_library(tensor, *consumer, &mut model);
        }
        let _without = self.leave_out(match &holder {
            Holder::Imported(_) => Rule::TensorDone,
            Holder::Library(_, Consumer::Unnamed(_)) => Rule::TensorEndUnknown,
            Holder::Library(..) => Rule::TensorEnd,
        });
        let _hindered = self.hinder([(Symbol::cuEventRecord, 0), (Symbol::cuStreamWaitEvent, 0)]);
        drop(holder);
    }
}
