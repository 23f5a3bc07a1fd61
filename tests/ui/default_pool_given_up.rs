//! The default pool belongs to the process, and nobody may destroy it.
use cupool::{Device, MemPool, Result};

pub fn f(device: &Device) -> Result<()> {
    let pool = MemPool::default_of(device)?;
    #[cfg(misuse)]
    let _raw = pool.into_raw(); //~ E0507
    #[cfg(not(misuse))]
    let _raw = pool.as_raw();
    Ok(())
}
