//! While the host writes managed memory in place, no other stream may have it.
use cupool::{ManagedBuffer, Result, Stream};

pub fn f(mut buffer: ManagedBuffer<u32>, other: &Stream) -> Result<()> {
    let elements = buffer.as_host_mut_slice()?;
    #[cfg(misuse)]
    let _loan = buffer.read_on(other)?; //~ E0502
    #[cfg(not(misuse))]
    let _ = other;
    elements.fill(1);
    Ok(())
}
