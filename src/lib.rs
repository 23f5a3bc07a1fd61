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
mod staging;
#[allow(unsafe_code)]
mod stream;

/// The CUDA version of the headers behind [`cuda_sys`], as `1000 * major + 10 * minor`. Drivers may be older or newer.
pub const HEADER_VERSION: u32 = header_version();

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

/// Reads the number that the build script passes on.
const fn header_version() -> u32 {
    match u32::from_str_radix(env!("CUPOOL_HEADER_VERSION"), 10) {
        Ok(version) => version,
        Err(_) => 0,
    }
}

const _: () = assert!(HEADER_VERSION == cuda_sys::CUDA_VERSION);
