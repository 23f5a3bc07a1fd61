//! Between the question whether the pool's memory is in use and the call, another thread could allocate.
use cupool::{Device, MemPool, Result};

pub fn f(peer: &Device, pool: &mut MemPool) -> Result<()> {
    let other: &MemPool = pool;
    #[cfg(misuse)]
    pool.revoke(peer)?; //~ E0502
    other.usage()?;
    Ok(())
}
