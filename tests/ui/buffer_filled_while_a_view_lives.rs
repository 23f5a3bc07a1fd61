//! What a shared view shows must not change under it.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    buffer.fill(1)?; //~ E0502
    view.to_vec()
}
