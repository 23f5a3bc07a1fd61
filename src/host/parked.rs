//! Pinned memory without an owner: kept for reuse, and because the device may still be at it.
//!
//! Freeing page-locked memory waits for all work of the device, and making it is slow. So what is dropped is parked
//! here, and is freed when so much has come together that somebody who makes more has to wait for it, when it is asked
//! for, or with the context.

use cuda_sys::{CUcontext, CUevent, Functions};

use crate::{
    Context, Result, gate, raw, release,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many bytes may stay parked while new memory is made.
const MOST: usize = 256 << 20;

/// Memory, and the event after which the device is done with it.
pub(crate) struct Pinned {
    pub(super) address: *mut u8,
    pub(super) bytes: usize,
    pub(super) event: CUevent,
}

// SAFETY: the memory has no other owner, and event handles may be used from every thread.
unsafe impl Send for Pinned {}

/// A context's parked memory.
pub(crate) struct Parked(Mutex<Vec<Pinned>>);

impl Parked {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// No driver call.
    pub(super) fn park(&self, pinned: Pinned) {
        self.lock().push(pinned);
    }

    /// Memory of at least `bytes` bytes, and less than twice as many, that the device is done with.
    pub(super) fn take(&self, functions: &Functions, bytes: usize) -> Option<Pinned> {
        let fits = |pinned: &Pinned| pinned.bytes >= bytes && pinned.bytes / 2 < bytes;
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
    pub(super) fn surplus(&self) -> usize {
        let bytes: usize = self.lock().iter().map(|pinned| pinned.bytes).sum();
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
            for pinned in all {
                // SAFETY: a parked event is live, and the context current.
                match unsafe { raw::event::event_synchronize(functions, pinned.event) }
                    .or_else(|error| raw::context::ctx_synchronize(functions).map_err(|_| error))
                {
                    Ok(()) => {
                        freed += pinned.bytes;
                        // SAFETY: nobody else has the memory, and the device is done with it.
                        unsafe { pinned.free(functions) };
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

    fn lock(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pinned {
    /// # Safety
    /// The device must be done with the memory, and its context be current.
    pub(super) unsafe fn free(self, functions: &Functions) {
        // SAFETY: both are owned and end here, as the caller says.
        unsafe {
            release::report(raw::host::mem_free_host(functions, self.address.cast()));
            release::report(raw::event::event_destroy(functions, self.event));
        }
    }
}

impl Context {
    /// Frees the page-locked memory of dropped [`PinnedBuffer`](crate::PinnedBuffer)s, which is kept for reuse, and
    /// returns how many bytes that were. Waits for the device. Without it, up to 256 MiB are kept until the context's
    /// last owner is dropped.
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
