//! While the host reads managed memory in place, the device must be given nothing that writes it.
use cupool::{ManagedBuffer, Result};

pub fn f(mut buffer: ManagedBuffer<u32>) -> Result<u32> {
    let seen = buffer.as_host_slice()?;
    #[cfg(misuse)]
    buffer.as_mut_slice().fill(1)?; //~ E0502
    Ok(seen[0])
}
