//! Whoever made the current pool may destroy it before it is to be current again.
use cupool::{MemPool, Result};

pub fn f(pool: &mut MemPool) -> Result<()> {
    #[cfg(misuse)]
    drop(pool.make_current_over()?); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    drop(unsafe { pool.make_current_over() }?);
    Ok(())
}
