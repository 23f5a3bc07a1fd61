//! Two owners would free the memory twice.
use cupool::{Buffer, Stream};

pub fn f(buffer: Buffer<u8, Stream>) {
    #[cfg(misuse)]
    drop(buffer.clone()); //~ E0599
    drop(buffer);
}
