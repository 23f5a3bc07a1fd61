//! Whoever has the raw allocation may have freed it.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    let _parts = buffer.into_raw_parts();
    buffer.to_vec()?; //~ E0382
    Ok(())
}
