//! Whoever owns a borrowed pool may destroy it although a guard was forgotten; then it must not be on record.
use cupool::{Device, MemPool, Result};

pub fn f(device: &Device, own: &mut MemPool) -> Result<()> {
    let borrowed = MemPool::default_of(device)?;
    #[cfg(misuse)]
    drop(borrowed.make_current()?); //~ E0596
    drop(own.make_current()?);
    drop(borrowed);
    Ok(())
}
