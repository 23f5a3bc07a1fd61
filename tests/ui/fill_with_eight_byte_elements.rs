//! The driver fills with patterns of 1, 2 or 4 bytes.
use cupool::{DeviceSliceMut, Result};

#[cfg(misuse)]
type Element = u64;
#[cfg(not(misuse))]
type Element = u32;

pub fn f(mut view: DeviceSliceMut<'_, Element>) -> Result<()> {
    view.fill(1) //~ E0080
}
