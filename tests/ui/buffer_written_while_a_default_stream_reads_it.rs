//! A buffer that a default stream may read must not be written meanwhile.
use cupool::{Buffer, LegacyStream, Result};

pub fn f(mut buffer: Buffer<u8>, other: &LegacyStream) -> Result<()> {
    let loan = buffer.read_on_default(other)?;
    #[cfg(misuse)]
    buffer.fill(1)?; //~ E0502
    drop(loan);
    Ok(())
}
