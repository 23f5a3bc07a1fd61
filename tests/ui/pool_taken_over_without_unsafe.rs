//! Nobody checks that the handle is a pool, nor whose it is: the default one must not be destroyed.
use cupool::{Device, MemPool, cuda_sys::CUmemoryPool};

pub fn f(device: Device, raw: CUmemoryPool) -> MemPool {
    #[cfg(misuse)]
    return MemPool::from_raw(device, raw); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        MemPool::from_raw(device, raw)
    }
}
