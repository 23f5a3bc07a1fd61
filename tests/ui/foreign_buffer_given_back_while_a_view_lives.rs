//! The owner may free the memory that the view would read.
use cupool::{ForeignBuffer, Stream};

pub fn f(ours: ForeignBuffer<u8, Box<[u8]>, &Stream>) -> Option<Box<[u8]>> {
    let view = ours.as_slice();
    #[cfg(misuse)]
    let owner = ours.into_owner().ok(); //~ E0505
    let _ = view.to_vec();
    #[cfg(not(misuse))]
    let owner = ours.into_owner().ok();
    owner
}
