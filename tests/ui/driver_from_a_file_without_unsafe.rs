//! Loading a file runs what is in it.
use cupool::{Driver, Result};

pub fn f(path: &str) -> Result<Driver> {
    #[cfg(misuse)]
    return Driver::load_from(path); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Driver::load_from(path)
    }
}
