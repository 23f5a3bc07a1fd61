//! Pools that were dropped while they held memory: destroyed once they hold none.
//!
//! The driver lets a pool be destroyed at any time, and says that it keeps the pool until its last allocation is freed.
//! But 580.159 then loses track of frees that are still to come, or to be noticed, on other streams: it uses memory of its
//! own that it has freed, and crashes or hangs later, anywhere. (Of random programs a third end so; none does where pools
//! that hold memory are not destroyed.) So such a pool waits here, and gives its memory back to the system as it becomes free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_sys::{CUmemPool_attribute, CUmemoryPool, CUresult, Functions};

use super::{MemPool, current};
use crate::{Device, Driver, Error, Result, gate, raw, release};

/// How many of those that wait are asked about when another comes: more than one, so that they become fewer.
const ASKED: usize = 4;

static WAITING: Mutex<Vec<Dropped>> = Mutex::new(Vec::new());

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

    /// `None` as long as it must not be destroyed.
    fn try_end(&self, functions: &Functions) -> Option<Result<()>> {
        match self.holds_memory(functions) {
            Ok(true) => None,
            // What does not answer now may do so later; what never will cannot be waited for.
            Err(error) if !is_refused(&error) => None,
            // SAFETY: the pool is owned, and nothing is done with it any more.
            Ok(false) | Err(_) => Some(unsafe { raw::mem_pool::mem_pool_destroy(functions, self.raw) }),
        }
    }

    fn holds_memory(&self, functions: &Functions) -> Result<bool> {
        let reserved = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        // SAFETY: the pool is owned, hence live, and the attribute a number of that size.
        unsafe {
            raw::mem_pool::mem_pool_trim_to(functions, self.raw, 0)?;
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

/// Whether the driver does not have what it was asked for.
fn is_refused(error: &Error) -> bool {
    matches!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_NOT_SUPPORTED))
}

/// Ends a pool: at once if it holds no memory, or as soon as somebody finds that it does not.
///
/// # Safety
/// The caller must own the pool, which must be live, and give it up.
pub(super) unsafe fn end(device: Device, raw: CUmemoryPool) {
    if gate::check().is_err() {
        return;
    }
    end_waiting(device.driver(), ASKED);
    if let Some(dropped) = (Dropped { device, raw }).end() {
        dropped.retire();
        lock().push(dropped);
    }
}

/// Destroys those of the driver's dropped pools that hold nothing any more, of `most` that have waited longest.
pub(super) fn end_waiting(driver: Driver, most: usize) {
    let asked: Vec<Dropped> = lock().extract_if(.., |waiting| waiting.device.driver() == driver).take(most).collect();
    // No lock is held: a failure is reported, which may call anybody's code.
    let still: Vec<Dropped> = asked.into_iter().filter_map(Dropped::end).collect();
    lock().extend(still);
}

fn lock() -> MutexGuard<'static, Vec<Dropped>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemPool {
    /// Destroys the pools of `driver` that were dropped while they held memory, as far as they hold none any more, and says
    /// how many still do. Buffers keep a dropped pool, and so do frees that their streams have yet to reach. Without it,
    /// this is done when other pools are made or dropped.
    ///
    /// # Errors
    /// [`Error::ForkedAfterInit`].
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn destroy_dropped(driver: Driver) -> Result<usize> {
        gate::check()?;
        end_waiting(driver, usize::MAX);
        Ok(lock().iter().filter(|waiting| waiting.device.driver() == driver).count())
    }
}
