//! The reborrow is alone with the memory until it ends.
use cupool::{DeviceSliceMut, Result};

pub fn f(mut view: DeviceSliceMut<'_, u8>) -> Result<()> {
    let mut again = view.reborrow();
    #[cfg(misuse)]
    view.fill(1)?; //~ E0499
    again.fill(2)
}
