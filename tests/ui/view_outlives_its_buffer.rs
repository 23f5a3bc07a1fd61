//! The memory is freed with the buffer.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    view.to_vec()
}
