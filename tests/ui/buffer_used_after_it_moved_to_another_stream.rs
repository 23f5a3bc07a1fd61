//! The old home is not ordered after what the new one is given.
use cupool::{Buffer, Result, Stream};

pub fn f(buffer: Buffer<u8>, other: &Stream) -> Result<()> {
    #[cfg(misuse)]
    let _moved = buffer.move_to(other);
    buffer.to_vec()?; //~ E0382
    Ok(())
}
