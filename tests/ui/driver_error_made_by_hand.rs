//! What a call answered only the call knows.
use core::num::NonZero;

use cupool::{DriverError, cuda_sys::Symbol};

pub fn f(error: DriverError, code: NonZero<u32>, call: Symbol) -> DriverError {
    let _ = (code, call);
    #[cfg(misuse)]
    return DriverError { code, call }; //~ E0451
    #[cfg(not(misuse))]
    error
}
