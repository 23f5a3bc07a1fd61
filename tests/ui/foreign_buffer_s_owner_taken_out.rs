//! The owner keeps the memory for as long as it is lent.
use cupool::{ForeignBuffer, Stream};

pub fn f(ours: &mut ForeignBuffer<u8, Option<Box<[u8]>>, &Stream>) -> bool {
    #[cfg(misuse)]
    return ours.owner().take().is_some(); //~ E0596
    #[cfg(not(misuse))]
    ours.owner().is_some()
}
