//! A soft limit on what a pool's users have allocated: checked here, not by the driver, and only while there is one.
//!
//! While any pool in the process has a limit the gate is shut, so that every allocation takes the way through here; while
//! none has, an allocation does not know that limits exist.

use cuda_sys::{CUdeviceptr_v2, CUmemPool_attribute};

use super::{MemPool, OutOfMemory, Rescue};
use crate::{
    DriverError, Error, Result, Stream, gate, raw, release,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// What no limit is stored as.
const NONE: u64 = u64::MAX;

/// What the driver answered, or the limit by which it was not asked.
type Attempt = Result<Result<CUdeviceptr_v2, DriverError>, u64>;

/// A pool's soft limit.
pub(super) struct SoftLimit {
    bytes: AtomicU64,
    /// Held from the question how much is used until the allocation that depends on the answer is made.
    turn: Mutex<()>,
}

impl SoftLimit {
    pub(super) const fn new() -> Self {
        Self { bytes: AtomicU64::new(NONE), turn: Mutex::new(()) }
    }

    fn get(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != NONE)
    }

    /// Sets the limit, and has the gate know whether there is one.
    pub(super) fn set(&self, bytes: Option<u64>) {
        let (before, after) = (self.bytes.swap(bytes.unwrap_or(NONE), Ordering::Relaxed), bytes.unwrap_or(NONE));
        match (before, after) {
            (NONE, NONE) => {}
            (NONE, _) => gate::SOFT_LIMITS.add(1),
            (_, NONE) => gate::SOFT_LIMITS.subtract(1),
            _ => {}
        }
    }
}

impl MemPool {
    /// Refuses allocations from now on that would bring [`used`](super::MemPoolUsage::used) above `bytes`; `None` lifts
    /// the limit, and so does dropping the pool. Buffers that exist stay. Off unless asked for.
    ///
    /// Unlike [`max_size`](super::MemPoolProperties::max_size), which the driver enforces on what the pool holds, this
    /// can be changed at any time, can be given to a borrowed pool, and counts what buffers asked for. `used` falls when
    /// a free is enqueued, so an allocation that was refused can be made again as soon as a buffer has been dropped:
    /// nobody need wait. That is also why no rescue is tried here: neither waiting nor trimming lowers `used`.
    ///
    /// The limit is this value's own: it holds for allocations made through it, from any thread, which together
    /// never pass it. What others allocate from the same pool (through another [`MemPoolRef`](super::MemPoolRef), a raw
    /// handle, or `cuMemAllocAsync`) counts as used, but is not refused, so that together they can pass it. Allocations of
    /// libraries outside the pool, contexts, modules, and memory that becomes part of a graph do not count at all.
    ///
    /// While any pool in the process has a limit, each allocation makes a branch more; one from a pool that has one asks
    /// the driver what is used before (some 100 ns), one thread at a time.
    ///
    /// ```
    /// # use cupool::*;
    /// # let simulator = cupool_sim::Simulator::new();
    /// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
    /// # let device = driver.device(0)?;
    /// # let stream = Stream::new(&device.primary_context()?)?;
    /// let pool = MemPool::new(&device)?;
    /// pool.set_soft_limit(Some(1000));
    /// let buffer = pool.alloc::<u8, _>(700, &stream)?;
    /// let Err(Error::OutOfMemory(refused)) = pool.alloc::<u8, _>(400, &stream) else { panic!("it would be 1100") };
    /// assert_eq!((refused.soft_limit, refused.rescue), (Some(1000), Rescue::SoftLimit));
    /// drop(buffer);
    /// pool.alloc::<u8, _>(400, &stream)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_soft_limit(&self, bytes: Option<u64>) {
        self.soft_limit.set(bytes);
    }

    /// The limit that [`set_soft_limit`](Self::set_soft_limit) set.
    #[must_use]
    pub fn soft_limit(&self) -> Option<u64> {
        self.soft_limit.get()
    }

    /// An allocation while something in the process is out of the ordinary.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_guarded(&self, bytes: usize, home: &Stream) -> Result<CUdeviceptr_v2> {
        // What could not be freed there is not allocated there.
        home.ensure_ordered()?;
        // It would be memory of the graph's.
        home.ensure_outside_captures()?;
        match self.attempt(bytes, home)? {
            Ok(address) => Ok(address),
            Err(error) => self.rescued(bytes, home, error),
        }
    }

    /// One attempt at an allocation, unless the soft limit refuses it.
    pub(super) fn attempt(&self, bytes: usize, home: &Stream) -> Result<Result<CUdeviceptr_v2, DriverError>> {
        if self.soft_limit.get().is_none() {
            return Ok(self.try_allocate_warily(bytes, home));
        }
        let (attempted, restored) = {
            // Between the check and the allocation nobody else allocates through this value. Nothing that is done under
            // the lock waits for the device, or calls anybody's code.
            let _turn = self.soft_limit.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have been changed while others had their turn.
            let limit = self.soft_limit.get();
            raw::stream::relaxed_unreported(self.driver().functions(), || self.attempt_within(bytes, home, limit))
        };
        release::report(restored);
        attempted?.map_err(|limit| {
            Error::OutOfMemory(Box::new(OutOfMemory {
                requested: bytes,
                limit: self.made.map(|made| made.max_size),
                soft_limit: Some(limit),
                usage: self.usage().ok(),
                device: None,
                rescue: Rescue::SoftLimit,
            }))
        })
    }

    /// What the driver answers, or the limit that it would pass.
    fn attempt_within(&self, bytes: usize, home: &Stream, limit: Option<u64>) -> Result<Attempt> {
        if let Some(limit) = limit {
            let used = self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
            let wanted = u64::try_from(bytes).ok().and_then(|bytes| used.checked_add(bytes));
            if wanted.is_none_or(|wanted| wanted > limit) {
                return Ok(Err(limit));
            }
        }
        Ok(Ok(self.try_allocate(bytes, home)))
    }
}
