//! While another stream has managed memory exclusively, the host must not look.
use cupool::{ManagedBuffer, Result, Stream};

pub fn f(mut buffer: ManagedBuffer<u32>, other: &Stream) -> Result<()> {
    let loan = buffer.on(other)?;
    #[cfg(misuse)]
    buffer.as_host_slice()?; //~ E0502
    drop(loan);
    Ok(())
}
