//! The memory is freed with the buffer.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<()> {
    let mut view = buffer.as_mut_slice();
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    view.fill_zero()
}
