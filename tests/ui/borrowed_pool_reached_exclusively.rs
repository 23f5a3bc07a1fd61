//! With `&mut` to the pool behind a reference, it could be exchanged for one that is owned.
use cupool::{MemPool, MemPoolRef};

pub fn f(mut pool: MemPoolRef<'_>) {
    #[cfg(misuse)]
    let _pool: &mut MemPool = &mut *pool; //~ E0596
    #[cfg(not(misuse))]
    let _pool: &mut MemPoolRef<'_> = &mut pool;
}
