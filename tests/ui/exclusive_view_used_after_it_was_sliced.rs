//! A part of an exclusive view takes the whole's place; a part of a reborrow does not.
use cupool::{DeviceSliceMut, Result};

pub fn f(mut view: DeviceSliceMut<'_, u8>) -> Result<()> {
    #[cfg(misuse)]
    let part = view.slice(..1)?;
    #[cfg(not(misuse))]
    let part = view.reborrow().slice(..1)?;
    drop(part);
    view.fill(1) //~ E0382
}
