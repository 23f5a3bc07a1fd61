//! Frees that wait for the end of a capture.
//!
//! On a stream that is being captured the driver frees only memory that the graph itself allocates, so an ordinary
//! buffer that is dropped meanwhile cannot be freed there, and must not become part of the graph. Its address is kept
//! with the stream, and freed when the stream is next used without being captured: in its order, after all that used
//! the memory. Ordinary streams pay nothing: one bit of the [gate](crate::gate) says that some stream has such frees.

use cuda_sys::{CUdeviceptr_v2, CUresult};

use crate::{
    DriverError, Error, Result, Stream, gate, raw, release,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

/// A stream's addresses to be freed.
pub(crate) struct Deferred(Mutex<Vec<CUdeviceptr_v2>>);

impl Deferred {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CUdeviceptr_v2>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// The release of an allocation where something is out of the ordinary.
    ///
    /// # Safety
    /// `address` must be an allocation that is not used after this point of the stream's order.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn free_warily(&self, address: CUdeviceptr_v2) -> Result<()> {
        self.ensure_ordered()?;
        // SAFETY: as the caller says.
        unsafe { self.free(address) }
    }

    /// # Safety
    /// As [`free_warily`](Self::free_warily).
    unsafe fn free(&self, address: CUdeviceptr_v2) -> Result<()> {
        let functions = self.driver().functions();
        // SAFETY: as the caller says.
        let free = || unsafe { raw::memory::mem_free_async(functions, address, self.as_raw()) };
        // SAFETY: as the caller says; the driver has refused.
        raw::stream::relaxed_if_asked(functions, free).or_else(|error| unsafe { self.defer_free(address, error) })
    }

    /// Takes over an allocation that could not be freed because of `error`, if a capture of this stream is why.
    ///
    /// # Safety
    /// `address` must be an allocation that is not used after this point of the stream's order, and that the driver has
    /// just refused to free.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn defer_free(&self, address: CUdeviceptr_v2, error: DriverError) -> Result<()> {
        if !may_be_capture(error.code()) {
            return Err(error.into());
        }
        if self.is_capturing().unwrap_or(false) {
            self.deferred.lock().push(address);
            gate::DEFERRED_FREES.add(1);
            return Ok(());
        }
        if error.code() != CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED {
            return Err(error.into());
        }
        // It is a capture elsewhere that is in the way.
        let functions = self.driver().functions();
        // SAFETY: as the caller says; the driver has refused before it did anything.
        Ok(raw::stream::relaxed(functions, || unsafe {
            raw::memory::mem_free_async(functions, address, self.as_raw())
        })?)
    }

    /// Frees what a capture has put off, if it has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_deferred(&self) {
        // In a forked child a lock may be held by a thread that is not there.
        if gate::check().is_err() || self.order_lost.load(Ordering::Relaxed) {
            return;
        }
        if self.deferred.lock().is_empty() || self.is_capturing().unwrap_or(true) {
            return;
        }
        // No driver call is made, and no hook called, under the lock.
        let addresses = core::mem::take(&mut *self.deferred.lock());
        gate::DEFERRED_FREES.subtract(addresses.len());
        for address in addresses {
            // SAFETY: the stream has owned the allocation since its buffer was dropped, and gives it up here; all its
            // use came before on this stream, or was ordered before. (Another capture may have begun.)
            release::report(unsafe { self.free(address) });
        }
    }

    /// The last chance: what a capture still puts off is leaked.
    pub(crate) fn end_deferred(&mut self) {
        if gate::is_open() || gate::check().is_err() {
            return;
        }
        self.free_deferred();
        let lost = core::mem::take(&mut *self.deferred.lock());
        if lost.is_empty() {
            return;
        }
        gate::DEFERRED_FREES.subtract(lost.len());
        let why = if self.order_lost.load(Ordering::Relaxed) { Error::OrderLost } else { Error::StreamCapturing };
        for _ in lost {
            release::report(Err(why.clone()));
        }
    }
}

/// Whether a free can have been refused because of a capture; the driver answers the first.
fn may_be_capture(code: CUresult) -> bool {
    code == CUresult::CUDA_ERROR_INVALID_VALUE
        || (CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.0..=CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD.0)
            .contains(&code.0)
}
