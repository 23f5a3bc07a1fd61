//! Work of the device that is under way would find its memory gone.
use cupool::{Device, MemPool, Result};

pub fn f(peer: &Device, pool: &mut MemPool) -> Result<()> {
    #[cfg(misuse)]
    pool.revoke_in_use(peer)?; //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe { pool.revoke_in_use(peer) }?;
    Ok(())
}
