//! When the loan ends, the home stream waits for the other one, which must still be there.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: Stream) -> Result<()> {
    let loan = buffer.on(&other)?;
    #[cfg(misuse)]
    drop(other); //~ E0505
    drop(loan);
    Ok(())
}
