//! Freed memory is somebody else's.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    buffer.free()?;
    buffer.to_vec()?; //~ E0382
    Ok(())
}
