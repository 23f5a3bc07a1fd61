//! A guard that outlived its pool would make another one current in the name of a pool that is gone.
use cupool::{CurrentPool, MemPool, Result};

#[cfg(misuse)]
pub fn f(mut pool: MemPool) -> Result<CurrentPool<'static>> {
    pool.make_current() //~ E0515
}

#[cfg(not(misuse))]
pub fn f(pool: &mut MemPool) -> Result<CurrentPool<'_>> {
    pool.make_current()
}
