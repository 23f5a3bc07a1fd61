//! What a shared slice shows must not change under it.
use cupool::{PinnedBuffer, Result};

pub fn f(mut host: PinnedBuffer<u8>) -> Result<usize> {
    let elements = host.as_slice()?;
    #[cfg(misuse)]
    host.as_mut_slice()?.fill(0); //~ E0502
    Ok(elements.len())
}
