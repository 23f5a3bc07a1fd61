//! Pinned memory that nobody owns any more and the device may still use: kept until it is done.

use std::sync::{Mutex, PoisonError};

use cuda_sys::{CUcontext, CUevent, Functions};

use crate::{raw, release};

/// Memory and the event after which the device is done with it.
pub(crate) struct Pinned {
    pub(super) address: *mut u8,
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

    pub(super) fn park(&self, pinned: Pinned) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(pinned);
    }

    /// Frees what the device is done with.
    ///
    /// # Safety
    /// The memory must be of the live context `context`.
    pub(super) unsafe fn sweep(&self, functions: &Functions, context: CUcontext) {
        let mut parked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if parked.is_empty() {
            return;
        }
        // SAFETY: a parked event is live.
        let done: Vec<Pinned> = parked
            .extract_if(.., |pinned| matches!(unsafe { raw::event::event_query(functions, pinned.event) }, Ok(true)))
            .collect();
        // Freeing can wait for the device; nobody else has to wait for that.
        drop(parked);
        // SAFETY: the caller vouches for the context, and the device is done with these.
        unsafe { free(functions, context, done) };
    }

    /// Frees everything, and waits for the device where it must.
    ///
    /// # Safety
    /// As for [`sweep`](Self::sweep).
    pub(crate) unsafe fn free(&mut self, functions: &Functions, context: CUcontext) {
        let all = core::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        if all.is_empty() {
            return;
        }
        let free = || {
            for pinned in all {
                // SAFETY: a parked event is live.
                match unsafe { raw::event::event_synchronize(functions, pinned.event) }
                    .or_else(|error| raw::context::ctx_synchronize(functions).map_err(|_| error))
                {
                    // SAFETY: nobody else has the memory, and the device is done with it.
                    Ok(()) => unsafe { pinned.free(functions) },
                    // What is not known to be done is leaked.
                    Err(error) => release::report(Err(error)),
                }
            }
            Ok(())
        };
        // SAFETY: the caller says that the context is live.
        release::report(unsafe { raw::context::with_current(functions, context, free) });
    }
}

impl Pinned {
    /// # Safety
    /// The device must be done with the memory, and its context be current.
    unsafe fn free(self, functions: &Functions) {
        // SAFETY: both are owned and end here, as the caller says.
        unsafe {
            release::report(raw::host::mem_free_host(functions, self.address.cast()));
            release::report(raw::event::event_destroy(functions, self.event));
        }
    }
}

/// # Safety
/// The memory must be of the live context `context`, and the device be done with it.
pub(super) unsafe fn free(functions: &Functions, context: CUcontext, done: Vec<Pinned>) {
    if done.is_empty() {
        return;
    }
    let free = || {
        for pinned in done {
            // SAFETY: the device is done with it, as the caller says; its context is current.
            unsafe { pinned.free(functions) };
        }
        Ok(())
    };
    // SAFETY: the caller says that the context is live.
    release::report(unsafe { raw::context::with_current(functions, context, free) });
}
