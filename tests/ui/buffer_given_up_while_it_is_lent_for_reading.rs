//! Whoever takes over the raw allocation may free it before the other stream has read it.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8>, other: &Stream) -> Result<Vec<u8>> {
    let loan = buffer.read_on(other)?;
    #[cfg(misuse)]
    let _ = buffer.into_raw_parts(); //~ E0505
    loan.as_slice().to_vec()
}
