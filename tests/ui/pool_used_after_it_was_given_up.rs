//! Whoever has the raw pool may have destroyed it.
use cupool::{MemPool, Result};

pub fn f(pool: MemPool) -> Result<()> {
    #[cfg(misuse)]
    let _raw = pool.into_raw();
    pool.usage()?; //~ E0382
    Ok(())
}
