//! Nobody checks that there is memory, nor who uses it.
use cupool::{DeviceSliceMut, Stream};

pub fn f(stream: &Stream) -> DeviceSliceMut<'_, u8> {
    #[cfg(misuse)]
    return DeviceSliceMut::from_raw_parts(4096, 1, stream); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: there is no element.
    unsafe {
        DeviceSliceMut::from_raw_parts(0, 0, stream)
    }
}
