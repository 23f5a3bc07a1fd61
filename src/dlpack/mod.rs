//! Device memory to and from PyTorch, CuPy, JAX and others, by the [DLPack](https://dmlc.github.io/dlpack/latest/)
//! protocol: without a copy, and in the order of both sides' streams. Feature `dlpack`.
//!
//! Out: [`Buffer::into_dlpack`](crate::Buffer::into_dlpack) makes a [`ManagedTensor`], whose pointer
//! ([`ManagedTensor::into_raw`]) goes into a Python capsule named `dltensor_versioned`. In: [`ImportedTensor::from_raw`]
//! takes the pointer out of such a capsule (which must be renamed `used_dltensor_versioned`).
//!
//! The protocol is that of version 1, of any minor version. The older `dltensor`, without a version, is not spoken:
//! callers of Python's `__dlpack__` ask for the newer one with `max_version=(1, 0)`.
//!
//! # Whose stream
//!
//! A consumer says on which stream it will use the memory, and the producer makes that stream wait for what it has done
//! so far. In Python the stream is a number, the argument of `__dlpack__`; [`ConsumerStream::from_protocol`] reads it.
//! To import, pass the number of the stream that the tensor is to be at home on:
//! `stream.as_raw() as usize`.
//!
//! ```
//! # use cupool::{*, dlpack::*};
//! # let simulator = cupool_sim::Simulator::new();
//! # let driver = unsafe { Driver::from_functions(simulator.functions()) };
//! # let device = driver.device(0)?;
//! # let context = device.primary_context()?;
//! use std::sync::Arc;
//!
//! let (home, other) = (Arc::new(Stream::new(&context)?), Stream::new(&context)?);
//! let pool = MemPool::new(&device)?;
//! let buffer: Buffer<f32> = pool.alloc_zeroed(6, home)?;
//!
//! // Out, to a consumer that uses it on `other`.
//! let consumer = unsafe { ConsumerStream::from_raw(other.as_raw()) };
//! let raw = buffer.into_dlpack(&[2, 3], consumer).map_err(|(error, _)| error)?.into_raw();
//!
//! // In: the consumer could be anybody, and is this crate.
//! // SAFETY: the pointer was just given up, for use on this stream.
//! let mut tensor = unsafe { ImportedTensor::<f32, _>::from_raw(raw, &other) }?;
//! tensor.as_mut_slice()?.fill(1.0)?;
//! assert_eq!((tensor.shape(), tensor.as_slice().to_vec()?), (&[2, 3][..], vec![1.0; 6]));
//! drop(tensor); // calls the deleter once `other` has got so far
//! context.drop_retired()?;
//! # Ok::<(), Error>(())
//! ```
//!
//! When the consumer is done it calls the tensor's deleter, which names no stream. Work of the consumer may be pending
//! then, so the home stream first waits for the stream that the consumer named. A consumer that uses the memory on more
//! streams than that must order those before it itself, as PyTorch and CuPy ask of their users everywhere.

mod consumer;
mod element;
mod error;
mod export;
pub mod ffi;
mod import;
mod managed;

pub use consumer::ConsumerStream;
pub use element::{Bf16, Bool, DlElement, F16};
pub use error::DlpackError;
pub use import::ImportedTensor;
pub use managed::ManagedTensor;
