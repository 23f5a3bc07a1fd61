//! After the loan the memory is used in the home stream's order again, not in the view's.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    let mut loan = buffer.on(other)?;
    let mut view = loan.as_mut_slice();
    #[cfg(misuse)]
    drop(loan); //~ E0505
    view.fill(1)
}
