//! The other stream reads in an order of its own.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<Vec<u8>> {
    let loan = buffer.read_on(other)?;
    #[cfg(misuse)]
    buffer.fill(1)?; //~ E0502
    loan.as_slice().to_vec()
}
