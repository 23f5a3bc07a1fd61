//! Whoever takes over the raw allocation may free it.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    let _ = buffer.into_raw_parts(); //~ E0505
    view.to_vec()
}
