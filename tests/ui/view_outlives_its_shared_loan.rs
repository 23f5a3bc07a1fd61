//! After the loan the memory may be written, and nothing orders the view's stream with that.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8>, other: &Stream) -> Result<Vec<u8>> {
    let loan = buffer.read_on(other)?;
    let view = loan.as_slice();
    #[cfg(misuse)]
    drop(loan); //~ E0505
    view.to_vec()
}
