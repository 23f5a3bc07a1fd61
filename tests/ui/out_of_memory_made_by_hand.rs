//! It may come to say more.
use cupool::{OutOfMemory, Rescue};

pub fn f(error: OutOfMemory) -> OutOfMemory {
    #[cfg(misuse)]
    return OutOfMemory { requested: 0, usage: None, device: None, rescue: Rescue::Off }; //~ E0639
    #[cfg(not(misuse))]
    error
}
