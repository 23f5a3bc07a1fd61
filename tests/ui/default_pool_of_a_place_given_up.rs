//! A default pool belongs to the process wherever its memory lies, and nobody may destroy it.
use cupool::{Device, MemKind, MemPoolLocation, MemPool, Result};

pub fn f(device: &Device) -> Result<()> {
    let pool = MemPool::default_at(device, MemPoolLocation::Host, MemKind::Managed)?;
    #[cfg(misuse)]
    let _raw = pool.into_raw(); //~ E0507
    #[cfg(not(misuse))]
    let _raw = pool.as_raw();
    Ok(())
}
