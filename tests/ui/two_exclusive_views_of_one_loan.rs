//! Two views that write the same memory would not be exclusive.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    let mut loan = buffer.on(other)?;
    let mut view = loan.as_mut_slice();
    #[cfg(misuse)]
    drop(loan.as_mut_slice()); //~ E0499
    view.fill(1)
}
