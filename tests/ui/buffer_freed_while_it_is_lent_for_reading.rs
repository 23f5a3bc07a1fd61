//! The memory would be freed before the other stream has read it.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8>, other: &Stream) -> Result<Vec<u8>> {
    let loan = buffer.read_on(other)?;
    #[cfg(misuse)]
    buffer.free()?; //~ E0505
    loan.as_slice().to_vec()
}
