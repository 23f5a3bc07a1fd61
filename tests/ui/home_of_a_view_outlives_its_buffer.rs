//! The stream that a view names may be the buffer's own, and end with it.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8, Stream>) -> Result<()> {
    let home = buffer.as_slice().home();
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    home.synchronize()
}
