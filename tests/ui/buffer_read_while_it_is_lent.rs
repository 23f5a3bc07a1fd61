//! Another stream has the memory to itself, and writes it in an order of its own.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    let mut loan = buffer.on(other)?;
    #[cfg(misuse)]
    buffer.to_vec()?; //~ E0502
    loan.as_mut_slice().fill(1)
}
