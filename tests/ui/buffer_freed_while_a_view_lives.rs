//! A view of freed memory would be read when it is somebody else's.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u8>) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    buffer.free()?; //~ E0505
    view.to_vec()
}
