//! A loan for reading lends no right to write.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    #[cfg(misuse)]
    let mut loan = buffer.read_on(other)?;
    #[cfg(not(misuse))]
    let mut loan = buffer.on(other)?;
    loan.as_mut_slice().fill(1) //~ E0599
}
