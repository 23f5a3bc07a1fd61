//! A vector that grows moves its elements, and the driver is told of the old place.
use cupool::Registered;

pub fn f(mut registered: Registered<Vec<u8>, u8>) {
    registered.fill(1);
    #[cfg(misuse)]
    registered.push(1); //~ E0599
    drop(registered.into_vec());
}
