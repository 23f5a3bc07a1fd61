//! A driver's functions are vouched for where it is made.
use cupool::Driver;

pub fn f(driver: Driver) -> Driver {
    #[cfg(misuse)]
    return Driver { functions: driver.functions() }; //~ E0451
    #[cfg(not(misuse))]
    driver
}
