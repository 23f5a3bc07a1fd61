//! The memory would be freed before the other stream is done with it.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    let mut loan = buffer.on(other)?;
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    loan.as_mut_slice().fill(1)
}
