//! No more elements can be reached than were allocated.
use cupool::{DeviceSliceMut, Result};

pub fn f(mut view: DeviceSliceMut<'_, u8>) -> Result<()> {
    #[cfg(misuse)]
    {
        view.len = 4096; //~ E0616
    }
    view.fill_zero()
}
