//! The host cannot reach device memory; it copies it.
use cupool::{Buffer, Result};

pub fn f(buffer: &Buffer<u8>) -> Result<u8> {
    #[cfg(not(misuse))]
    let buffer = buffer.to_vec()?;
    Ok(buffer[0]) //~ E0608
}
