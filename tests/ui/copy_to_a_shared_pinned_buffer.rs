//! Others may look at the elements through the same kind of reference while the device writes them.
use cupool::{DeviceSlice, PinnedBuffer, Result};

#[cfg(misuse)]
type Reference<'a> = &'a PinnedBuffer<u8>;
#[cfg(not(misuse))]
type Reference<'a> = &'a mut PinnedBuffer<u8>;

pub fn f(view: DeviceSlice<'_, u8>, host: Reference<'_>) -> Result<()> {
    view.copy_to_pinned(host) //~ E0308
}
