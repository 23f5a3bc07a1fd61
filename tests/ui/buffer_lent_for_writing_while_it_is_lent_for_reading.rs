//! One stream would write what the other reads.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, one: &Stream, other: &Stream) -> Result<Vec<u8>> {
    let loan = buffer.read_on(one)?;
    #[cfg(misuse)]
    drop(buffer.on(other)?); //~ E0502
    loan.as_slice().to_vec()
}
