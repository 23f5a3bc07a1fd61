//! Access to a borrowed pool is its owner's to grant, who would have to take it back.
use cupool::{Access, Device, MemPool, Result};

pub fn f(device: &Device, peer: &Device, own: &mut MemPool) -> Result<()> {
    let borrowed = MemPool::default_of(device)?;
    #[cfg(misuse)]
    borrowed.grant(peer, Access::Read)?; //~ E0596
    own.grant(peer, Access::Read)?;
    drop(borrowed);
    Ok(())
}
