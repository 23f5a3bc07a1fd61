//! The device's current pool, from which `cuMemAllocAsync` allocates, here and in every library of the process: made
//! another for a time, and allocated from.
//!
//! What was current is to be current again afterwards, which must not name a pool that has been destroyed meanwhile. So
//! all guards that exist are on one record, each with what it replaced: another guard, whose pool lives as long as that
//! one is on record, or the default pool, which lives for ever. A guard that ends in between hands down what it
//! replaced to the one above; the default pool, if that was somebody else's, who need not keep it any longer. One that was forgotten ends with its pool, whose destruction comes after.

use core::{fmt, ops::Deref};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use cuda_sys::{CUmemoryPool, CUresult};

use super::{MemPool, OutOfMemory, Rescue};
use crate::{Buffer, Device, Error, Result, Stream, StreamHandle, buffer, gate, raw, release};

/// Makes a pool its device's current one until it is dropped, and derefs to the pool; made by
/// [`MemPool::make_current`].
///
/// One that is forgotten has the pool stay current until it is dropped: then another takes its place.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let mut pool = MemPool::new(&device)?;
/// let current = pool.make_current()?;
/// // What a library allocates with `cudaMallocAsync` comes from the pool now.
/// let buffer = Buffer::<u8, _>::from_current_pool(1000, &stream)?;
/// assert_eq!(current.usage()?.used, 1000);
/// # Ok::<(), Error>(())
/// ```
#[must_use = "the former pool is current again when this is dropped"]
pub struct CurrentPool<'a> {
    pool: &'a MemPool,
    number: u64,
}

/// Which pool was current before.
#[derive(Clone, Copy, Debug)]
enum Former {
    /// That of the guard with that number.
    Guard(u64),
    /// The default one.
    Default,
    /// Somebody else's, which lives as long as the guard that replaced it.
    Foreign(CUmemoryPool),
}

/// A guard that has not ended.
#[derive(Clone, Copy, Debug)]
struct Entry {
    device: Device,
    number: u64,
    pool: CUmemoryPool,
    former: Former,
}

/// The guards that have not ended, of all devices, in the order in which they were made.
struct Record {
    entries: Vec<Entry>,
    numbers: u64,
}

// SAFETY: pool handles may be used from every thread.
unsafe impl Send for Record {}

impl MemPool {
    /// Makes this its device's current pool until the guard is dropped, a panic that drops it included: from then on
    /// `cuMemAllocAsync` (and the runtime's `cudaMallocAsync`) allocates from it for everybody in the process. The guard
    /// derefs to the pool. Off unless asked for.
    ///
    /// When the guard is dropped, what was current before is current again, unless somebody has changed it meanwhile.
    /// Guards may end in any order.
    ///
    /// # Errors
    /// [`Error::ForeignCurrentPool`] if the current pool is neither the default one nor one of another such guard: its
    /// owner may destroy it at any time, so that it cannot safely be made current again. Whatever the driver answers;
    /// some (in confidential-computing set-ups) refuse the question which pool is current.
    #[doc(alias = "cuDeviceSetMemPool")]
    #[doc(alias = "cuDeviceGetMemPool")]
    #[doc(alias = "cudaDeviceSetMemPool")]
    pub fn make_current(&mut self) -> Result<CurrentPool<'_>> {
        self.replace_current(|_| Err(Error::ForeignCurrentPool { device: self.device().as_raw() })).map(|number| {
            self.was_current = true;
            CurrentPool { pool: self, number }
        })
    }

    /// As [`make_current`](Self::make_current), also where the current pool is somebody else's.
    ///
    /// # Errors
    /// As there, but for [`Error::ForeignCurrentPool`].
    ///
    /// # Safety
    /// Unless it is the default one, whoever made the pool that is current now must keep it alive until the guard is
    /// dropped, and this pool is dropped if the guard is forgotten.
    #[doc(alias = "cuDeviceSetMemPool")]
    pub unsafe fn make_current_over(&mut self) -> Result<CurrentPool<'_>> {
        self.replace_current(|foreign| Ok(Former::Foreign(foreign))).map(|number| {
            self.was_current = true;
            CurrentPool { pool: self, number }
        })
    }

    /// Makes the pool current and enters it in the record; `foreign` decides about what somebody else had made current.
    fn replace_current(&self, foreign: impl FnOnce(CUmemoryPool) -> Result<Former>) -> Result<u64> {
        let (functions, device) = (self.driver().functions(), self.device());
        gate::check()?;
        raw::stream::relaxed(functions, || {
            let mut record = record();
            let current = raw::mem_pool::device_get_mem_pool(functions, device.as_raw())?;
            let former = match record.last_of(device, current) {
                Some(entry) => Former::Guard(entry.number),
                None if current == raw::mem_pool::device_get_default_mem_pool(functions, device.as_raw())? => {
                    Former::Default
                }
                None => foreign(current)?,
            };
            // SAFETY: the pool is borrowed, hence live, and made for this device.
            unsafe { raw::mem_pool::device_set_mem_pool(functions, device.as_raw(), self.as_raw())? };
            record.numbers += 1;
            let number = record.numbers;
            record.entries.push(Entry { device, number, pool: self.as_raw(), former });
            Ok(number)
        })
    }

    /// Before the pool may be destroyed: ends its guards that were forgotten.
    pub(super) fn end_as_current(&mut self) {
        // In a forked child a thread that is no more may hold the record.
        if !self.was_current || gate::check().is_err() {
            return;
        }
        let last = || record().last_of(self.device(), self.as_raw());
        while let Some(entry) = last() {
            end(entry.device, entry.number);
        }
    }
}

impl Deref for CurrentPool<'_> {
    type Target = MemPool;

    #[inline]
    fn deref(&self) -> &MemPool {
        self.pool
    }
}

impl Drop for CurrentPool<'_> {
    fn drop(&mut self) {
        // In a forked child a thread that is no more may hold the record.
        if gate::check().is_ok() {
            end(self.pool.device(), self.number);
        }
    }
}

impl fmt::Debug for CurrentPool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CurrentPool").field(self.pool).finish()
    }
}

impl Record {
    /// The latest guard of that pool.
    fn last_of(&self, device: Device, pool: CUmemoryPool) -> Option<Entry> {
        self.entries.iter().rev().find(|entry| entry.device == device && entry.pool == pool).copied()
    }

    /// A guard ends: what it replaced takes its place, on record and, if its pool still is current, at the device.
    fn end(&mut self, number: u64) -> Result<()> {
        let Some(at) = self.entries.iter().position(|entry| entry.number == number) else { return Ok(()) };
        let ended = self.entries.remove(at);
        for entry in &mut self.entries {
            if matches!(entry.former, Former::Guard(of) if of == number) {
                entry.former = match ended.former {
                    Former::Foreign(_) => Former::Default,
                    former => former,
                };
            }
        }
        // A guard made later has the same pool current.
        if self.entries.iter().skip(at).any(|entry| entry.device == ended.device && entry.pool == ended.pool) {
            return Ok(());
        }
        let (functions, device) = (ended.device.driver().functions(), ended.device.as_raw());
        let guard = match ended.former {
            Former::Guard(of) => self.entries.iter().find(|entry| entry.number == of).map(|entry| entry.pool),
            Former::Default | Former::Foreign(_) => None,
        };
        if guard == Some(ended.pool) {
            return Ok(());
        }
        if raw::mem_pool::device_get_mem_pool(functions, device)? != ended.pool {
            return Ok(());
        }
        let former = match (guard, ended.former) {
            (Some(pool), _) | (None, Former::Foreign(pool)) => pool,
            (None, _) => raw::mem_pool::device_get_default_mem_pool(functions, device)?,
        };
        // SAFETY: the former pool is that of a guard on record, whose pool lives; or the default one; or the caller of
        // `make_current_over` vouches for its life.
        unsafe { raw::mem_pool::device_set_mem_pool(functions, device, former) }
    }
}

/// Ends the guard with that number, and reports what fails.
fn end(device: Device, number: u64) {
    let ended = raw::stream::relaxed(device.driver().functions(), || record().end(number));
    release::report(ended);
}

/// Before a pool is given up that may yet be destroyed: the default pool takes its place, whoever made it current.
pub(super) fn replace_by_default(device: Device, pool: CUmemoryPool) {
    let functions = device.driver().functions();
    let replaced = raw::stream::relaxed(functions, || {
        // So that no guard makes another current in between.
        let _record = record();
        if raw::mem_pool::device_get_mem_pool(functions, device.as_raw())? != pool {
            return Ok(());
        }
        let default = raw::mem_pool::device_get_default_mem_pool(functions, device.as_raw())?;
        // SAFETY: the default pool lives for ever.
        unsafe { raw::mem_pool::device_set_mem_pool(functions, device.as_raw(), default) }
    });
    // A driver that does not say which pool is current was not told by anybody either.
    let _: Result<()> = replaced;
}

/// Guards come and go rarely. Nothing that is done under the lock waits for the device, or calls anybody's code: failures
/// are reported, and the capture mode is restored, after it.
fn record() -> MutexGuard<'static, Record> {
    static RECORD: Mutex<Record> = Mutex::new(Record { entries: Vec::new(), numbers: 0 });
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Pod, S: StreamHandle> Buffer<T, S> {
    /// Allocates `len` elements in `stream`'s order from whichever pool is current on the stream's device: what
    /// `cudaMallocAsync` does. One driver call; none if there is nothing to allocate.
    ///
    /// The driver looks up the pool during the call, so this is safe where
    /// [`MemPool::current_of`](crate::MemPool::current_of) is not: no handle of the pool is kept. What that pool keeps
    /// and how far it may grow is its owner's to say. Prefer a pool of your own: the default pool, which is the current
    /// one unless somebody chose another, gives all its free memory back at every synchronisation.
    ///
    /// # Errors
    /// As [`MemPool::alloc`](crate::MemPool::alloc), but no rescue is tried, and nothing is known of the pool;
    /// [`Error::PoolsUnsupported`].
    #[doc(alias = "cuMemAllocAsync")]
    #[doc(alias = "cudaMallocAsync")]
    pub fn from_current_pool(len: usize, stream: S) -> Result<Self> {
        buffer::allocate(len, stream, |bytes, home| {
            home.ensure_ordered()?;
            home.ensure_outside_captures()?;
            let functions = home.driver().functions();
            raw::stream::relaxed_if_asked(functions, || {
                // SAFETY: the stream is borrowed, hence live.
                unsafe { raw::memory::mem_alloc_async(functions, bytes, home.as_raw()) }
            })
            .map_err(|error| refused(bytes, home, error))
        })
    }
}

#[cold]
fn refused(bytes: usize, home: &Stream, error: Error) -> Error {
    match error.code() {
        Some(CUresult::CUDA_ERROR_NOT_SUPPORTED) => {
            home.context().device().ensure_memory_pools_supported().err().unwrap_or(error)
        }
        Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::OutOfMemory(Box::new(OutOfMemory {
            requested: bytes,
            limit: None,
            soft_limit: None,
            usage: None,
            device: home.context().memory_info().ok(),
            rescue: Rescue::Off,
        })),
        _ => error,
    }
}
