//! Host functions: calls that a stream makes when it gets there.

use core::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, Result, Stream, raw, release};

impl Stream {
    /// Has the stream call `function` on a thread of the driver's, after the work enqueued so far and before what is
    /// enqueued from now on, which waits for it.
    ///
    /// The driver forbids CUDA calls in there (they answer `CUDA_ERROR_NOT_PERMITTED`, or never return), so what a
    /// host function captures must be [`Copy`]: nothing that would be released inside, such as a buffer. Numbers and
    /// `&'static` atomics, locks and channels are; what it reaches through those is the caller's to keep from CUDA. A panic does not leave it; it is counted as a
    /// [release failure](crate::release_failures). If the context ends in a fault before its turn comes it is never
    /// called.
    ///
    /// ```
    /// # use cupool::*;
    /// # let simulator = cupool_sim::Simulator::new();
    /// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
    /// # let context = driver.device(0)?.primary_context()?;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static DONE: AtomicBool = AtomicBool::new(false);
    /// let stream = Stream::new(&context)?;
    /// stream.call_host(|| DONE.store(true, Ordering::Release))?;
    /// stream.synchronize()?;
    /// assert!(DONE.load(Ordering::Acquire));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::StreamCapturing`]: a graph could call it many times. Else whatever the driver answers.
    #[doc(alias = "cuLaunchHostFunc")]
    #[doc(alias = "cuStreamAddCallback")]
    pub fn call_host<F: FnOnce() + Copy + Send + 'static>(&self, function: F) -> Result<()> {
        self.ensure_not_capturing()?;
        let data = Box::into_raw(Box::new(function));
        // SAFETY: the stream is borrowed, hence live; `call::<F>` takes over what `data` owns, once, since no graph is
        // being made of it. If the driver refuses, the few bytes are leaked: it does not promise never to call then.
        unsafe { raw::stream::launch_host_func(self.driver().functions(), self.as_raw(), call::<F>, data.cast()) }
    }
}

/// # Safety
/// `data` must be a boxed `F`, which this takes over.
unsafe extern "C" fn call<F: FnOnce()>(data: *mut c_void) {
    // SAFETY: as the caller says.
    let function = unsafe { Box::from_raw(data.cast::<F>()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(*function)) {
        // Dropping it could panic again.
        core::mem::forget(payload);
        release::report(Err(Error::HostFunctionPanicked));
    }
}
