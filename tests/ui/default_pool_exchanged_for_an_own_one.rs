//! What is exchanged for the default pool would be leaked, and the default pool destroyed.
use core::mem;

use cupool::{Device, MemPool, Result};

pub fn f(device: &Device) -> Result<()> {
    let mut own = MemPool::new(device)?;
    let mut pool = MemPool::default_of(device)?;
    #[cfg(misuse)]
    mem::swap(&mut own, &mut pool); //~ E0596
    #[cfg(not(misuse))]
    mem::swap(&mut MemPool::default_of(device)?, &mut pool);
    drop(own);
    Ok(())
}
