//! An exclusive view is alone with its memory.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<()> {
    let mut view = buffer.as_mut_slice();
    #[cfg(misuse)]
    buffer.to_vec()?; //~ E0502
    view.fill(1)
}
