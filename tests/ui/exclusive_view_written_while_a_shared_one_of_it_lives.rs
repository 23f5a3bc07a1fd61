//! What a shared view shows must not change under it.
use cupool::{DeviceSliceMut, Result};

pub fn f(mut view: DeviceSliceMut<'_, u8>) -> Result<Vec<u8>> {
    let shared = view.as_slice();
    #[cfg(misuse)]
    view.fill(1)?; //~ E0502
    shared.to_vec()
}
