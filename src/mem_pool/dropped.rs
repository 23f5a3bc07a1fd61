//! Pools that were dropped while they held memory: destroyed once they hold none.
//!
//! The driver lets a pool be destroyed at any time, and says that it keeps the pool until its last allocation is freed.
//! But 580.159 then loses track of frees that are still to come, or to be noticed, on other streams: it uses memory of its
//! own that it has freed, and crashes or hangs later, anywhere. (Of random programs a third end so; none does where pools
//! that hold memory are not destroyed.) So such a pool waits here, and gives its memory back to the system as it becomes free.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use cuda_sys::{CUmemPool_attribute, CUmemoryPool, Functions};

use super::{MemPool, current};
use crate::{Device, Driver, Result, gate, raw, release};

/// How many of those that wait are asked about when another comes: more than one, so that they become fewer; and not all,
/// so that it costs the same however many there are.
const ASKED: usize = 4;

static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

/// The pools of one driver that wait.
struct Waiting {
    driver: Driver,
    /// Those that were asked about longest ago come first.
    pools: VecDeque<Dropped>,
    /// How many more there are that some thread is asking about.
    asked: usize,
}

/// A pool that has no owner.
struct Dropped {
    device: Device,
    raw: CUmemoryPool,
}

// SAFETY: pool handles may be used from every thread, and the driver does its own locking.
unsafe impl Send for Dropped {}

impl Dropped {
    /// Destroys the pool, if it holds nothing; else it comes back.
    fn end(self) -> Option<Self> {
        let functions = self.device.driver().functions();
        let ended = raw::stream::relaxed(functions, || self.try_end(functions));
        match ended {
            None => Some(self),
            Some(destroyed) => {
                release::report(destroyed);
                None
            }
        }
    }

    /// `None` as long as it must not be destroyed: what does not answer now may do so later.
    fn try_end(&self, functions: &Functions) -> Option<Result<()>> {
        // SAFETY: the pool is owned, and nothing is done with it any more.
        let destroy = || unsafe { raw::mem_pool::mem_pool_destroy(functions, self.raw) };
        self.holds_memory(functions).is_ok_and(|holds| !holds).then(destroy)
    }

    fn holds_memory(&self, functions: &Functions) -> Result<bool> {
        let reserved = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        // SAFETY: the pool is owned, hence live, and the attribute a number of that size.
        unsafe {
            // Where it fails, the pool may hold nothing all the same.
            let _ = raw::mem_pool::mem_pool_trim_to(functions, self.raw, 0);
            Ok(raw::mem_pool::mem_pool_get_attribute::<u64>(functions, self.raw, reserved)? != 0)
        }
    }

    /// Nobody allocates from it any more, and what becomes free goes back to the system with the next synchronisation.
    fn retire(&self) {
        current::replace_by_default(self.device, self.raw);
        let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let functions = self.device.driver().functions();
        // SAFETY: as above. Where it fails, the memory goes back when the pool is asked about again.
        let _ = raw::stream::relaxed(functions, || unsafe {
            raw::mem_pool::mem_pool_set_attribute(functions, self.raw, threshold, 0_u64)
        });
    }
}

/// Ends a pool: at once if it holds no memory, or as soon as somebody finds that it does not.
///
/// # Safety
/// The caller must own the pool, which must be live, and give it up.
pub(super) unsafe fn end(device: Device, raw: CUmemoryPool) {
    if gate::check().is_err() {
        return;
    }
    let driver = device.driver();
    end_some(driver);
    if let Some(dropped) = (Dropped { device, raw }).end() {
        dropped.retire();
        of(driver, |waiting| waiting.pools.push_back(dropped));
    }
}

/// Before another pool comes: destroys those of the driver's dropped pools that hold nothing any more, of a few that
/// were asked about longest ago.
pub(super) fn end_some(driver: Driver) {
    end_waiting(driver, ASKED);
}

/// The same, of `most`.
fn end_waiting(driver: Driver, most: usize) {
    let asked: Vec<Dropped> = of(driver, |waiting| {
        let number = waiting.pools.len().min(most);
        waiting.asked += number;
        waiting.pools.drain(..number).collect()
    });
    for dropped in asked {
        // No lock is held: a failure is reported, which may call anybody's code.
        let still = dropped.end();
        of(driver, |waiting| {
            waiting.asked -= 1;
            waiting.pools.extend(still);
        });
    }
}

/// What waits of a driver's pools, under the lock.
fn of<R>(driver: Driver, work: impl FnOnce(&mut Waiting) -> R) -> R {
    let mut all = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let at = all.iter().position(|waiting| waiting.driver == driver);
    // No more entries than drivers of which some pool waits.
    let mut waiting = at.map_or(Waiting { driver, pools: VecDeque::new(), asked: 0 }, |at| all.swap_remove(at));
    let result = work(&mut waiting);
    if !waiting.pools.is_empty() || waiting.asked > 0 {
        all.push(waiting);
    }
    result
}

impl MemPool {
    /// Destroys the pools of `driver` that were dropped while they held memory, as far as they hold none any more, and says
    /// how many still do (or may: those that another thread is asking about count). Buffers keep a dropped pool, and so do
    /// frees that their streams have yet to reach. Without it, this is done when other pools are made or dropped, for a few
    /// of them each time.
    ///
    /// # Errors
    /// [`Error::ForkedAfterInit`](crate::Error::ForkedAfterInit).
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn destroy_dropped(driver: Driver) -> Result<usize> {
        gate::check()?;
        end_waiting(driver, usize::MAX);
        Ok(of(driver, |waiting| waiting.pools.len() + waiting.asked))
    }
}
