//! A retain that is not owed would be released.
use cupool::{Context, Device, cuda_sys::CUcontext};

pub fn f(device: Device, raw: CUcontext) -> Context {
    #[cfg(misuse)]
    return Context::from_raw(device, raw); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Context::from_raw(device, raw)
    }
}
