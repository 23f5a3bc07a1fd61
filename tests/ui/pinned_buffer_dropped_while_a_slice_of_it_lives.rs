//! The memory is freed with the buffer.
use cupool::{PinnedBuffer, Result};

pub fn f(host: PinnedBuffer<u8>) -> Result<usize> {
    let elements = host.as_slice()?;
    #[cfg(misuse)]
    drop(host); //~ E0505
    Ok(elements.len())
}
