//! While the guard lives the pool is the device's current one; whoever allocates from that would find it gone.
use cupool::{MemPool, Result};

pub fn f(mut pool: MemPool) -> Result<()> {
    let current = pool.make_current()?;
    #[cfg(misuse)]
    drop(pool); //~ E0505
    drop(current);
    Ok(())
}
