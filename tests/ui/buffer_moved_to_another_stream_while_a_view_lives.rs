//! The view would go on using the memory in the order of the old home.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8>, other: &Stream) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    let _moved = buffer.move_to(other); //~ E0505
    let elements = view.to_vec();
    #[cfg(not(misuse))]
    let _moved = buffer.move_to(other);
    elements
}
