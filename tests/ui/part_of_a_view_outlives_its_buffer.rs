//! A part of a view, seen as another type, is still the buffer's memory.
use cupool::{Buffer, Result};

pub fn f(buffer: Buffer<u32>) -> Result<Vec<u8>> {
    let part = buffer.as_slice().split_at(1)?.1.slice(1..)?.cast::<u8>()?;
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    part.to_vec()
}
