//! CUDA's stream-ordered memory for Rust: pools, streams, events, RAII buffers and copies, at the cost of the driver
//! call.
//!
//! ```
//! use cupool::{Buffer, Driver, MemPool, Stream};
//!
//! # fn main() -> cupool::Result<()> {
//! # let simulator = cupool_sim::Simulator::new();
//! # let load = || unsafe { Driver::from_functions(simulator.functions()) };
//! # /*
//! let driver = Driver::load()?;
//! # */
//! # let driver = load();
//! let context = driver.device(0)?.primary_context()?;
//! let stream = Stream::new(&context)?;
//! let pool = MemPool::new(&context.device())?;
//!
//! let mut x: Buffer<f32, &Stream> = pool.alloc(3, &stream)?;
//! x.copy_from_host(&[1.0, 2.0, 3.0])?;
//! x.slice_mut(1..)?.fill(0.5)?;
//! assert_eq!(x.to_vec()?, [1.0, 0.5, 0.5]);
//! # Ok(())
//! # }
//! ```
//!
//! # What is safe, and why
//!
//! A [`Buffer`] has a *home stream*, the one it was allocated on; everything done with it is enqueued there, its
//! release included. Work that touches memory of two homes is fenced on both sides. So safe code cannot make the
//! device use memory that is not allocated at that point of stream order, whatever is dropped when. Elements are plain
//! data ([`bytemuck::Pod`]), so memory that was never written can be read. What is done with raw handles and addresses
//! ([`Buffer::as_raw`], [`Stream::as_raw`]) is the caller's to order.
//!
//! # What this crate does not do
//!
//! It makes no context current behind the caller's back, waits in no `Drop` but that of a context's last owner, never
//! changes the process's default or current pool unasked, and makes no driver call in `Debug` or `Display`.

#![deny(unsafe_code)]

mod attribute_name;
#[allow(unsafe_code)]
mod buffer;
mod capture_mode;
#[allow(unsafe_code)]
mod context;
#[allow(unsafe_code)]
mod default_stream;
#[allow(unsafe_code)]
mod deferred;
mod device;
#[allow(unsafe_code)]
mod direct;
#[cfg(feature = "dlpack")]
#[allow(unsafe_code)]
pub mod dlpack;
#[allow(unsafe_code)]
mod driver;
mod error;
#[allow(unsafe_code)]
mod event;
#[allow(unsafe_code)]
mod foreign;
#[allow(unsafe_code)]
mod gate;
#[allow(unsafe_code)]
mod graph;
mod graph_memory;
#[allow(unsafe_code)]
mod host;
#[allow(unsafe_code)]
mod host_function;
#[allow(unsafe_code)]
pub mod ipc;
#[cfg(feature = "launch")]
#[allow(unsafe_code)]
pub mod launch;
#[allow(unsafe_code)]
mod lend;
mod lend_default;
#[allow(unsafe_code)]
mod managed;
#[allow(unsafe_code)]
mod mem_pool;
#[allow(unsafe_code)]
mod order;
#[allow(unsafe_code)]
mod pointer;
#[allow(unsafe_code)]
mod raw;
mod release;
#[allow(unsafe_code)]
mod slice;
#[allow(unsafe_code)]
mod staging;
#[allow(unsafe_code)]
mod stream;
mod sync;

/// The CUDA version of the headers behind [`cuda_sys`], as `1000 * major + 10 * minor`. Drivers may be older or newer.
pub const HEADER_VERSION: u32 = header_version();

pub use buffer::Buffer;
pub use capture_mode::RelaxedCaptureMode;
pub use context::{Context, ContextRef, MemoryInfo};
pub use cuda_sys;
pub use default_stream::{DefaultStream, DefaultStreamKind, Legacy, LegacyStream, PerThread, PerThreadStream};
pub use device::{Device, Uuid};
pub use driver::Driver;
pub use error::{DriverError, Error, LoadFailure, Result};
pub use event::{Event, EventRef, TimedEvent};
pub use foreign::ForeignBuffer;
pub use graph::{Capture, CaptureMode, CaptureStatus, Graph, GraphBuffer, GraphExec, InstantiateOptions, KeptBuffer};
pub use graph_memory::GraphMemoryUsage;
pub use host::{PinnedBuffer, Registered};
pub use lend::{Loan, SharedLoan};
pub use lend_default::{DefaultLoan, SharedDefaultLoan};
pub use managed::{ManagedBuffer, MemLocation};
pub use mem_pool::{
    Access, CurrentPool, DefaultThreshold, MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolProperties,
    MemPoolRef, MemPoolUsage, OutOfMemory, Rescue, Trimmed,
};
pub use pointer::{MemoryKind, PointerInfo};
pub use release::{recent_release_failures, release_failures, set_release_hook};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use stream::{Stream, StreamHandle, StreamOptions, StreamRef};

/// Reads the number that the build script passes on.
const fn header_version() -> u32 {
    match u32::from_str_radix(env!("CUPOOL_HEADER_VERSION"), 10) {
        Ok(version) => version,
        Err(_) => 0,
    }
}

const _: () = assert!(HEADER_VERSION == cuda_sys::CUDA_VERSION);
