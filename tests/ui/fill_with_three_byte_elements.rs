//! The driver fills with patterns of 1, 2 or 4 bytes.
use cupool::{DeviceSliceMut, Result};

#[cfg(misuse)]
type Element = [u8; 3];
#[cfg(not(misuse))]
type Element = [u8; 2];

pub fn f(mut view: DeviceSliceMut<'_, Element>) -> Result<()> {
    view.fill(Element::default()) //~ E0080
}
