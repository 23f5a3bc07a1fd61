//! A buffer that a default stream has exclusively must not be used meanwhile.
use cupool::{Buffer, LegacyStream, Result};

pub fn f(mut buffer: Buffer<u8>, other: &LegacyStream) -> Result<()> {
    let loan = buffer.on_default(other)?;
    #[cfg(misuse)]
    buffer.to_vec()?; //~ E0502
    drop(loan);
    Ok(())
}
