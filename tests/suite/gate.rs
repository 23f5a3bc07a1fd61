//! Work in front: a stream that is kept busy until the test says otherwise.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{thread, time::Instant};

use cupool::{Stream, cuda_sys::CUstream};
use cupool_sim::CUresult;

use crate::fixture::Fixture;

/// Holds up a stream until it is opened or dropped. Both drivers run what is behind it only after that.
///
/// The simulated driver runs work when somebody waits for it, so a gate must be opened before.
pub(crate) struct Gate(&'static AtomicBool);

impl Gate {
    pub(crate) fn on(fixture: &Fixture, stream: &Stream) -> Self {
        Self::on_handle(fixture, stream, stream.as_raw())
    }

    /// The same for a stream of which there is only a handle; `stream` is one of the same driver.
    pub(crate) fn on_handle(fixture: &Fixture, stream: &Stream, held_up: CUstream) -> Self {
        assert!(fixture.is_alone(), "what this holds up may hold up others");
        let open: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let launch = stream.driver().functions().cuLaunchHostFunc.expect("every driver since CUDA 10.0 has it");
        let data = core::ptr::from_ref(open).cast_mut().cast();
        // SAFETY: the stream is live; the function only reads the flag, which lives for ever.
        let code = unsafe { launch(held_up, Some(hold), data) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        Self(open)
    }

    pub(crate) fn open(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

unsafe extern "C" fn hold(open: *mut c_void) {
    // SAFETY: `Gate::on` passes a flag that lives for ever and is only used as an atomic.
    let open = unsafe { &*open.cast::<AtomicBool>() };
    let since = Instant::now();
    while !open.load(Ordering::Acquire) && since.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_micros(100));
    }
}
