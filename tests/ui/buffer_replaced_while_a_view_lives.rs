//! Assigning another buffer frees the old one's memory.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>, other: Buffer<u8>) -> Result<usize> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    {
        buffer = other; //~ E0506
    }
    view.to_vec()?;
    #[cfg(not(misuse))]
    {
        buffer = other;
    }
    Ok(buffer.len())
}
