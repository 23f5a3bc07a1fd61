//! What the driver answers about memory that was freed in stream order is undefined.
use cupool::{Driver, PointerInfo, Result};

pub fn f(driver: Driver, address: u64) -> Result<Option<PointerInfo>> {
    #[cfg(misuse)]
    return driver.pointer_info(address); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: the caller vouches for it, were this not a test.
    unsafe { driver.pointer_info(address) }
}
