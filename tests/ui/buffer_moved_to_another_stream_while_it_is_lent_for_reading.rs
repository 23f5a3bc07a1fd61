//! The end of the loan is made known to the home that the buffer had when it began.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    let loan = buffer.read_on(other)?;
    #[cfg(misuse)]
    let _moved = buffer.move_to(other); //~ E0505
    drop(loan);
    #[cfg(not(misuse))]
    let _moved = buffer.move_to(other);
    Ok(())
}
