//! The host's view of managed memory ends before the memory does.
use cupool::{ManagedBuffer, Result};

pub fn f(buffer: ManagedBuffer<u32>) -> Result<u32> {
    let seen = buffer.as_host_slice()?;
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    Ok(seen[0])
}
