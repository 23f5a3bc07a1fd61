//! Device addresses mean nothing to the host: they are numbers, not pointers.
use cupool::{Buffer, Result};

pub fn f(buffer: &Buffer<u8>) -> Result<u8> {
    #[cfg(misuse)]
    return Ok(unsafe { *buffer.as_raw() }); //~ E0614
    #[cfg(not(misuse))]
    Ok(*buffer.to_vec()?.first().unwrap_or(&0))
}
