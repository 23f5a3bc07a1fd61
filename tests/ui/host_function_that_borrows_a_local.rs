//! The stream may get to the host function long after the caller has returned.
use std::sync::atomic::{AtomicBool, Ordering};

use cupool::{Result, Stream};

pub fn f(stream: &Stream) -> Result<()> {
    #[cfg(misuse)]
    let done = AtomicBool::new(false);
    #[cfg(not(misuse))]
    static DONE: AtomicBool = AtomicBool::new(false);
    #[cfg(not(misuse))]
    let done = &DONE;
    stream.call_host(|| done.store(true, Ordering::Release)) //~ E0373
}
