//! The host would write what the device is reading.
use cupool::{DeviceSliceMut, PinnedBuffer, Result};

pub fn f(mut view: DeviceSliceMut<'_, u8>, mut host: PinnedBuffer<u8>) -> Result<()> {
    let elements = host.as_mut_slice()?;
    #[cfg(misuse)]
    view.copy_from_pinned(&host)?; //~ E0502
    elements.fill(0);
    view.copy_from_pinned(&host)
}
