//! The driver checks no address and no handle.
use cupool::{Driver, cuda_sys::CUresult};

pub fn f(driver: Driver) -> CUresult {
    #[cfg(misuse)]
    return (driver.functions().cuInit)(0); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: initialises the driver.
    unsafe {
        (driver.functions().cuInit)(0)
    }
}
