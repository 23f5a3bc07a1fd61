//! What happens when an allocation does not fit: one attempt to make room, and an error that says what there is.

use core::fmt;
use core::sync::atomic::Ordering;

use cuda_sys::{CUdeviceptr_v2, CUresult};

use super::{MemPool, MemPoolUsage};
use crate::{DriverError, Error, MemoryInfo, Result, Stream, raw};

/// An allocation that did not fit, and what there was. What the driver would not say is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub requested: usize,
    /// The size limit that the pool was made with; 0 is none.
    pub limit: Option<usize>,
    /// The pool's soft limit on what is used, if it has one; see [`MemPool::set_soft_limit`].
    pub soft_limit: Option<u64>,
    /// The pool's own memory, after the rescue.
    pub usage: Option<MemPoolUsage>,
    /// The device's memory, after the rescue.
    pub device: Option<MemoryInfo>,
    /// What was done to make room.
    pub rescue: Rescue,
}

/// What was done to make room for an allocation that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rescue {
    /// Waited for the stream, had the pool give back its free memory, and tried once more.
    Tried,
    /// Nothing: the pool is told not to.
    Off,
    /// Nothing: the stream is being captured.
    Capturing,
    /// Nothing: waiting for the stream failed.
    WaitFailed,
    /// Nothing: it was the pool's soft limit that refused, before the driver was asked. Only a buffer less makes room.
    SoftLimit,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory: {} bytes requested", self.requested)?;
        match self.usage {
            Some(usage) => write!(f, "; the pool uses {} of the {} bytes it holds", usage.used, usage.reserved)?,
            None => write!(f, "; the pool does not say what it holds")?,
        }
        match self.limit {
            Some(0) => f.write_str("; it has no limit")?,
            Some(limit) => write!(f, "; its limit is {limit}")?,
            None => {}
        }
        if let Some(limit) = self.soft_limit {
            write!(f, "; its soft limit on what is used is {limit}")?;
        }
        match self.device {
            None if self.rescue == Rescue::SoftLimit => {}
            Some(device) => write!(f, "; the device has {} of {} bytes free", device.free, device.total)?,
            None => write!(f, "; the device does not say what is free")?,
        }
        f.write_str(match self.rescue {
            Rescue::Tried => "; waiting for the stream and trimming the pool did not help",
            Rescue::Off => "; no rescue was tried, the pool is told not to",
            Rescue::Capturing => "; no rescue was tried, the stream is being captured",
            Rescue::WaitFailed => "; no rescue was tried, waiting for the stream failed",
            Rescue::SoftLimit => "; the soft limit refused it, and only freeing buffers makes room",
        })?;
        if self.device.is_some_and(|device| device.free > self.requested) {
            f.write_str("; what is exhausted may be the pool's limit or the process's addresses, not the device")?;
        }
        Ok(())
    }
}

impl std::error::Error for OutOfMemory {}

impl MemPool {
    /// The second half of an allocation that was refused.
    #[cold]
    #[inline(never)]
    pub(super) fn rescued(&self, bytes: usize, home: &Stream, error: DriverError) -> Result<CUdeviceptr_v2> {
        let error = match error.code() {
            // Another thread captures something in the mode that forbids this to all threads, and nobody said so
            // beforehand: see `RelaxedCaptureMode`.
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
                let again = raw::stream::relaxed(home.driver().functions(), || self.try_allocate(bytes, home));
                match again {
                    Ok(address) => return Ok(address),
                    Err(error) => error,
                }
            }
            _ => error,
        };
        if error.code() != CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(error.into());
        }
        let rescue = self.make_room(home);
        if rescue == Rescue::Tried {
            match self.attempt(bytes, home)? {
                Err(error) if error.code() == CUresult::CUDA_ERROR_OUT_OF_MEMORY => {}
                answer => return Ok(answer?),
            }
        }
        Err(Error::OutOfMemory(Box::new(OutOfMemory {
            requested: bytes,
            limit: self.made.map(|made| made.max_size),
            soft_limit: self.soft_limit(),
            usage: self.usage().ok(),
            device: if rescue == Rescue::Capturing { None } else { home.context().memory_info().ok() },
            rescue,
        })))
    }

    fn make_room(&self, home: &Stream) -> Rescue {
        if !self.rescue.load(Ordering::Relaxed) {
            return Rescue::Off;
        }
        // A stream that cannot say is treated as one that must not be disturbed.
        if home.is_capturing().unwrap_or(true) {
            return Rescue::Capturing;
        }
        if home.synchronize_at_once().is_err() {
            return Rescue::WaitFailed;
        }
        // Memory that another size class holds free may be what is missing; a trim that fails has not helped, and
        // the next attempt says so.
        let _ = self.trim_to(0);
        Rescue::Tried
    }
}
