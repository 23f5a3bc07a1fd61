//! There is one release, ever.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    buffer.free()?;
    buffer.free() //~ E0382
}
