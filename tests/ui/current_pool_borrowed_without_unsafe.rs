//! Whoever made the current pool may destroy it.
use cupool::{Device, MemPool, MemPoolRef, Result};

pub fn f(device: &Device) -> Result<MemPoolRef<'static>> {
    #[cfg(misuse)]
    return MemPool::current_of(device); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        MemPool::current_of(device)
    }
}
