//! Others may have the same view.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    let view = buffer.as_slice();
    #[cfg(not(misuse))]
    let mut view = buffer.as_mut_slice();
    view.fill(1) //~ E0599
}
