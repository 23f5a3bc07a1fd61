//! Beside somebody's global capture: having the most frequent calls made in the relaxed mode too.

use std::sync::{PoisonError, RwLock};

use cuda_sys::Functions;

use crate::{Driver, gate};

/// Whose calls are to be made so, once for each request.
static DRIVERS: RwLock<Vec<&'static Functions>> = RwLock::new(Vec::new());

/// Whether that is asked for.
pub(crate) fn is_asked_for(functions: &Functions) -> bool {
    // In a forked child a thread that is not there may hold the lock.
    gate::RELAXED_CALLS.is_any()
        && gate::check().is_ok()
        && DRIVERS.read().unwrap_or_else(PoisonError::into_inner).iter().any(|asked| core::ptr::eq(*asked, functions))
}

/// For as long as one of these exists, every call of this crate to its driver leaves captures elsewhere in the process whole.
///
/// While a thread captures a stream in CUDA's *global* mode (PyTorch's default), a call that may synchronise, on any other
/// thread, answers `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` and invalidates that capture; on current drivers allocating
/// and freeing stream-ordered memory are such calls, and so are asking about streams and waiting for them. This crate
/// makes its rare calls (everything about pools, events, page-locked memory) in the thread's relaxed capture mode, which
/// is harmless, whatever happens elsewhere. For allocations, frees, [`Stream::query`](crate::Stream::query) and
/// [`Stream::synchronize`](crate::Stream::synchronize) that would cost two more driver calls each (some 22 ns together),
/// so it is done while somebody asks for it. A process that captures in the other modes need not.
///
/// It also says that captures are expected. Asking whether a stream is captured costs a call, so only while one of these
/// exists is it asked before each wait, each query of a stream, each allocation, each copy of a
/// [`PinnedBuffer`](crate::PinnedBuffer) and each fence between two streams: those answer
/// [`Error::StreamCapturing`](crate::Error::StreamCapturing) then, rather than end the capture in an error, hand out the graph's
/// memory as if it were the pool's ([`MemPool::alloc_captured`](crate::MemPool::alloc_captured) is for that), or put into
/// the graph what was to order the streams themselves or to be waited for. So who captures a stream that memory of this crate is at home on,
/// or lent to, in whatever mode, must see to it that there is one from before the capture begins until it has ended.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// # let (pool, stream) = (MemPool::new(&device)?, Stream::new(&context)?);
/// let beside_captures = RelaxedCaptureMode::new(driver);
/// let buffer = pool.alloc::<u8, _>(100, &stream)?; // another thread's capture goes on
/// # drop(buffer);
/// drop(beside_captures);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct RelaxedCaptureMode {
    driver: Driver,
}

impl RelaxedCaptureMode {
    /// From now on, for all calls to `driver` in this process.
    #[doc(alias = "cuThreadExchangeStreamCaptureMode")]
    pub fn new(driver: Driver) -> Self {
        // In a forked child a thread that is not there may hold the lock.
        if gate::check().is_ok() {
            DRIVERS.write().unwrap_or_else(PoisonError::into_inner).push(driver.functions());
            gate::RELAXED_CALLS.add(1);
        }
        Self { driver }
    }
}

impl Drop for RelaxedCaptureMode {
    fn drop(&mut self) {
        if gate::check().is_err() {
            return;
        }
        let mut drivers = DRIVERS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = drivers.iter().position(|asked| core::ptr::eq(*asked, self.driver.functions())) {
            drivers.swap_remove(own);
            gate::RELAXED_CALLS.subtract(1);
        }
    }
}
