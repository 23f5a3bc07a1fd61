//! The default pool belongs to the process; an owner would destroy it.
use cupool::{Device, MemPool, Result};

pub fn f(device: &Device) -> Result<()> {
    let pool = MemPool::default_of(device)?;
    #[cfg(misuse)]
    let _owned: MemPool = *pool; //~ E0507
    #[cfg(not(misuse))]
    let _borrowed: &MemPool = &pool;
    Ok(())
}
