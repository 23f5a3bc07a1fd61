//! The cast buffer is another owner of the same memory.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    let _cast = buffer.cast::<u32>(); //~ E0505
    view.to_vec()
}
