//! Whoever made the current pool of a place may destroy it.
use cupool::{Device, MemKind, MemPoolLocation, MemPool, MemPoolRef, Result};

pub fn f(device: &Device) -> Result<MemPoolRef<'static>> {
    #[cfg(misuse)]
    return MemPool::current_at(device, MemPoolLocation::Host, MemKind::Managed); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        MemPool::current_at(device, MemPoolLocation::Host, MemKind::Managed)
    }
}
