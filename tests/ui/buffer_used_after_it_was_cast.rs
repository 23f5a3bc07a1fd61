//! The cast buffer owns the memory now.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    let _cast = buffer.cast::<u32>();
    buffer.to_vec()?; //~ E0382
    Ok(())
}
