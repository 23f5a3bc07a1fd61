//! Others may look at the buffer through the same kind of reference; they can share a loan for reading.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: &Buffer<u8>, other: &Stream) -> Result<()> {
    #[cfg(misuse)]
    drop(buffer.on(other)?); //~ E0596
    drop(buffer.read_on(other)?);
    Ok(())
}
