//! Memory without an owner, page-locked or managed: kept for reuse, and because the device may still be at it.
//!
//! Freeing such memory waits for all work of the device, and making it is slow. So what is dropped is parked here, and is
//! freed when so much has come together that somebody who makes more has to wait for it, when it is asked for, or with
//! the context.

use core::ffi::c_void;

use cuda_sys::{CUcontext, CUevent, Functions};

use crate::{
    Context, Result, gate, raw, release,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many bytes may stay parked while new memory is made.
const MOST: usize = 256 << 20;

/// Memory, and the event after which the device is done with it.
pub(crate) struct Memory {
    pub(crate) address: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) event: CUevent,
    /// Whether the event is that; else all work of the context must be waited for.
    pub(crate) marked: bool,
}

// SAFETY: the memory has no other owner, and event handles may be used from every thread.
unsafe impl Send for Memory {}
// SAFETY: as above; what is at the address is reached through the owner only.
unsafe impl Sync for Memory {}

/// A context's parked memory of one kind.
pub(crate) struct Parked {
    all: Mutex<Vec<Memory>>,
    /// The call that frees it.
    free: unsafe fn(&Functions, *mut c_void) -> Result<()>,
}

impl Parked {
    pub(crate) const fn pinned() -> Self {
        Self { all: Mutex::new(Vec::new()), free: raw::host::mem_free_host }
    }

    pub(crate) const fn managed() -> Self {
        Self { all: Mutex::new(Vec::new()), free: raw::managed::mem_free }
    }

    /// No driver call.
    pub(crate) fn park(&self, memory: Memory) {
        self.lock().push(memory);
    }

    /// Memory of at least `bytes` bytes, and less than twice as many, that the device is done with.
    pub(crate) fn take(&self, functions: &Functions, bytes: usize) -> Option<Memory> {
        let fits = |memory: &Memory| memory.marked && memory.bytes >= bytes && memory.bytes / 2 < bytes;
        let found = {
            let mut parked = self.lock();
            let position = parked.iter().position(fits)?;
            parked.swap_remove(position)
        };
        // SAFETY: a parked event is live.
        match unsafe { raw::event::event_query(functions, found.event) } {
            Ok(true) => Some(found),
            _ => {
                self.park(found);
                None
            }
        }
    }

    /// How many bytes are too many; 0 if they are few.
    pub(crate) fn surplus(&self) -> usize {
        let bytes: usize = self.lock().iter().map(|memory| memory.bytes).sum();
        bytes.saturating_sub(MOST)
    }

    /// Frees everything, after waiting for what is not done; what cannot be waited for is leaked. Returns the bytes
    /// that were freed.
    ///
    /// # Safety
    /// The memory must be of the live context `context`.
    pub(crate) unsafe fn free(&self, functions: &Functions, context: CUcontext) -> usize {
        let all = core::mem::take(&mut *self.lock());
        if all.is_empty() {
            return 0;
        }
        let free = || {
            let mut freed = 0;
            for memory in all {
                let all_work = || raw::context::ctx_synchronize(functions);
                // SAFETY: a parked event is live, and the context current.
                let event = || unsafe { raw::event::event_synchronize(functions, memory.event) };
                let done =
                    if memory.marked { event().or_else(|error| all_work().map_err(|_| error)) } else { all_work() };
                match done {
                    Ok(()) => {
                        freed += memory.bytes;
                        // SAFETY: nobody else has the memory, and the device is done with it.
                        unsafe { memory.free(functions, self.free) };
                    }
                    Err(error) => release::report(Err(error)),
                }
            }
            Ok(freed)
        };
        // SAFETY: the caller says that the context is live.
        let freed = unsafe { raw::context::with_current(functions, context, free) };
        freed.unwrap_or_else(|error| {
            release::report(Err(error));
            0
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Memory>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// # Safety
    /// The device must be done with the memory, its context be current, and `free` be for its kind.
    unsafe fn free(self, functions: &Functions, free: unsafe fn(&Functions, *mut c_void) -> Result<()>) {
        // SAFETY: both are owned and end here, as the caller says.
        unsafe {
            release::report(free(functions, self.address.cast()));
            release::report(raw::event::event_destroy(functions, self.event));
        }
    }
}

impl Context {
    /// Frees the page-locked memory of dropped [`PinnedBuffer`](crate::PinnedBuffer)s, which is kept for reuse, and
    /// returns how many bytes that were. Waits for the device. Without it, all is kept until the context's last owner is
    /// dropped, or until more is made while more than 256 MiB are kept: then this is done first.
    ///
    /// # Errors
    /// [`Error::ForkedAfterInit`](crate::Error::ForkedAfterInit). What cannot be freed is counted as a
    /// [release failure](crate::release_failures).
    #[doc(alias = "cuMemFreeHost")]
    pub fn trim_pinned(&self) -> Result<usize> {
        gate::check()?;
        // SAFETY: what is parked here is of this context, which is live.
        Ok(unsafe { self.parked().free(self.driver().functions(), self.as_raw()) })
    }
}

#[cfg(all(test, unix, not(cupool_shuttle)))]
mod tests {
    use crate::{Driver, Error, PinnedBuffer, gate::holds_in_child};

    #[test]
    fn a11_a_child_does_not_wait_for_a_lock_that_another_thread_held() {
        let simulator = cupool_sim::Simulator::new();
        // SAFETY: every entry behaves as the driver's.
        let driver = unsafe { Driver::from_functions(simulator.functions()) };
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let mut ours = Some(PinnedBuffer::<u32>::new(&context, 1).unwrap());
        let held = context.parked().lock();
        assert!(holds_in_child(|| {
            drop(ours.take());
            PinnedBuffer::<u32>::new(&context, 1).err() == Some(Error::ForkedAfterInit)
        }));
        drop(held);
    }
}
