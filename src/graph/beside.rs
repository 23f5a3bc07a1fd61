//! Allocating beside somebody else's capture.

use crate::{Driver, gate};

/// As long as one of these lives, allocations of this crate from any pool of the driver leave captures alone that others in the process have begun
/// in the global mode.
///
/// Such a capture forbids to every thread what may wait for the device, and the driver counts
/// `cuMemAllocFromPoolAsync` among it: the call is refused (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, 900). With this,
/// each allocation is made in the relaxed mode, which costs some 20 ns. While a [`Graph`](crate::Graph) of this crate is
/// captured it is done in any case; this is for the captures of other libraries, of which nobody tells.
///
/// Making one calls nothing.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let stream = Stream::new(&device.primary_context()?)?;
/// # let pool = MemPool::new(&device)?;
/// let beside = BesideCaptures::new(driver);
/// let buffer = pool.alloc::<u8, _>(100, &stream)?;
/// # drop(beside);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it has an effect until it is dropped"]
pub struct BesideCaptures {
    _capturing: gate::Capturing,
}

impl BesideCaptures {
    /// From now on.
    #[doc(alias = "cuThreadExchangeStreamCaptureMode")]
    pub fn new(driver: Driver) -> Self {
        Self { _capturing: gate::Capturing::begin(driver.functions()) }
    }
}
