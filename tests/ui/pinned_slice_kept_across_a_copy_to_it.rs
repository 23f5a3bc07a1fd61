//! The device would write what Rust believes to be unchanged.
use cupool::{DeviceSlice, PinnedBuffer, Result};

pub fn f(view: DeviceSlice<'_, u8>, mut host: PinnedBuffer<u8>) -> Result<usize> {
    let elements = host.as_slice()?;
    #[cfg(misuse)]
    view.copy_to_pinned(&mut host)?; //~ E0502
    let len = elements.len();
    #[cfg(not(misuse))]
    view.copy_to_pinned(&mut host)?;
    Ok(len)
}
