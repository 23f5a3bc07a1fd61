//! While the host writes managed memory in place, the device must be given nothing that reads it.
use cupool::{ManagedBuffer, Result};

pub fn f(mut buffer: ManagedBuffer<u32>) -> Result<()> {
    let elements = buffer.as_host_mut_slice()?;
    #[cfg(misuse)]
    buffer.to_vec()?; //~ E0502
    elements.fill(1);
    Ok(())
}
