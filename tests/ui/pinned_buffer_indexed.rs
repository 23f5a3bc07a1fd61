//! Looking at the elements may mean waiting for the device, which can fail.
use cupool::{PinnedBuffer, Result};

pub fn f(host: &PinnedBuffer<u8>) -> Result<u8> {
    #[cfg(not(misuse))]
    let host = host.as_slice()?;
    Ok(host[0]) //~ E0608
}
