//! A pool that somebody keeps alive for so long cannot be used for longer.
use cupool::{MemPool, MemPoolRef, MemPoolUsage, Result};

fn borrow(pool: &MemPool) -> MemPoolRef<'_> {
    // SAFETY: the pool lives for as long as it is borrowed.
    unsafe { MemPoolRef::borrow_raw(pool.device(), pool.as_raw()) }
}

pub fn f(pool: MemPool) -> Result<MemPoolUsage> {
    let borrowed = borrow(&pool);
    #[cfg(misuse)]
    drop(pool); //~ E0505
    borrowed.usage()
}
