//! CUDA's stream-ordered memory for Rust: pools, streams, events, RAII buffers and copies.
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod buffer;
#[allow(unsafe_code)]
mod context;
mod device;
#[allow(unsafe_code)]
mod driver;
mod error;
#[allow(unsafe_code)]
mod event;
#[allow(unsafe_code)]
mod gate;
#[allow(unsafe_code)]
mod mem_pool;
#[allow(unsafe_code)]
mod order;
#[allow(unsafe_code)]
mod raw;
mod release;
#[allow(unsafe_code)]
mod slice;
#[allow(unsafe_code)]
mod stream;

pub use buffer::Buffer;
pub use context::{Context, ContextRef, MemoryInfo};
pub use cuda_sys;
pub use device::{Device, Uuid};
pub use driver::Driver;
pub use error::{DriverError, Error, LoadFailure, Result};
pub use event::{Event, EventRef, TimedEvent};
pub use mem_pool::{MemPool, MemPoolProperties, MemPoolRef, MemPoolUsage, OutOfMemory, Rescue, Trimmed};
pub use release::{recent_release_failures, release_failures, set_release_hook};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use stream::{Stream, StreamHandle, StreamOptions, StreamRef};
