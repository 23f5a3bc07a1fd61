//! Sharing device memory and events with other processes.
//!
//! One process exports: a pool that was made for it ([`MemPoolProperties::handle_types`](crate::MemPoolProperties::handle_types)),
//! single buffers of that pool ([`Buffer::export`](crate::Buffer::export)), and events ([`InterprocessEvent`]). It
//! passes a file descriptor (`SCM_RIGHTS`) or a [`FabricHandle`] for the pool, and the plain bytes of an
//! [`ExportedPointer`] or [`EventHandle`] for the rest, by any channel that it trusts. The other process imports
//! the pool ([`ImportedPool`]) and the buffers ([`ImportedBuffer`]), and opens the events. The example `share` does all
//! of it between two processes.
//!
//! ```
//! # use cupool::*;
//! # let simulator = cupool_sim::Simulator::new();
//! # let driver = unsafe { Driver::from_functions(simulator.functions()) };
//! # let context = driver.device(0)?.primary_context()?;
//! # let stream = Stream::new(&context)?;
//! # #[cfg(unix)] {
//! use cupool::ipc::{ExportedPointer, ImportedPool};
//!
//! // In one process:
//! let properties = MemPoolProperties::new().handle_types(MemHandleTypes::POSIX_FD);
//! let pool = MemPool::with_properties(&context.device(), &properties)?;
//! let buffer = pool.alloc_from_host(&[1_u32, 2, 3], &stream)?;
//! let (fd, bytes) = (pool.export_fd()?, buffer.export()?.to_bytes());
//! stream.synchronize()?;
//!
//! // In the other, which got `fd` and `bytes`:
//! let imported = ImportedPool::from_fd(&context, &fd)?;
//! let pointer = ExportedPointer::from_bytes(&bytes)?;
//! // SAFETY: the buffer has been written, and is neither changed nor freed before the import is gone.
//! let view = unsafe { imported.import::<u32, _>(&pointer, &stream)? };
//! assert_eq!(view.to_vec()?, [1, 2, 3]);
//! drop(view);
//! stream.synchronize()?;
//! # }
//! # Ok::<(), Error>(())
//! ```
//!
//! # Who owes what to whom
//!
//! Rust's rules end at the process. What another process does with shared memory cannot be seen from here, so the one
//! promise about all of it is given where memory enters: [`ImportedPool::import`] is `unsafe` and lists it. Within the
//! process things are as elsewhere in this crate: an import has a home stream, its views are used and its release is
//! enqueued there, and work on another stream is fenced.
//!
//! In the exporting process nothing changes, and no handle keeps memory alive: the exporter must keep its buffers until
//! the importer has released its imports *on the device*. When the exporter ends first, the driver may end the
//! importer's access too, and its work then fails with a fault of the device that lasts. When the importer ends first,
//! its imports end with it.
//!
//! # What is not offered
//!
//! The older calls `cuIpcGetMemHandle` and `cuIpcOpenMemHandle` share memory of `cuMemAlloc` only: the driver refuses
//! them for memory of a pool.

mod event;
mod handle;
mod imported;
mod pointer;
mod pool;
mod registry;

pub use event::{EventHandle, InterprocessEvent};
pub use imported::ImportedBuffer;
pub use pointer::ExportedPointer;
pub use pool::{FabricHandle, ImportedPool};
