//! When the loan ends, the home stream waits for the default stream, whose context must still be there.
use cupool::{Buffer, LegacyStream, Result};

pub fn f(mut buffer: Buffer<u8>, other: LegacyStream) -> Result<()> {
    let loan = buffer.on_default(&other)?;
    #[cfg(misuse)]
    drop(other); //~ E0505
    drop(loan);
    Ok(())
}
