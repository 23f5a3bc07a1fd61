//! Two of a kind would not be exclusive.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<()> {
    let view = buffer.as_mut_slice();
    #[cfg(misuse)]
    drop(view.clone()); //~ E0599
    drop(view);
    Ok(())
}
