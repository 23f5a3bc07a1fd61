//! Nobody checks that the functions behave as the driver's.
use cupool::{Driver, cuda_sys::Functions};

pub fn f(functions: &'static Functions) -> Driver {
    #[cfg(misuse)]
    return Driver::from_functions(functions); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Driver::from_functions(functions)
    }
}
