//! Numbers from the device need not be Unicode.
use cupool::{DeviceSlice, Result};

#[cfg(misuse)]
type Element = char;
#[cfg(not(misuse))]
type Element = u32;

pub fn f(view: DeviceSlice<'_, u8>) -> Result<()> {
    view.cast::<Element>()?; //~ E0277
    Ok(())
}
