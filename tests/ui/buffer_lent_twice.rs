//! Two streams cannot both have the memory to themselves.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, one: &Stream, other: &Stream) -> Result<()> {
    let mut loan = buffer.on(one)?;
    #[cfg(misuse)]
    drop(buffer.on(other)?); //~ E0499
    loan.as_mut_slice().fill(1)
}
