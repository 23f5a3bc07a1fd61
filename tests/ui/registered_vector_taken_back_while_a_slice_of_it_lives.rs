//! The vector may be freed then, and the slice with it.
use cupool::Registered;

pub fn f(registered: Registered<Vec<u8>, u8>) -> usize {
    let elements: &[u8] = &registered;
    #[cfg(misuse)]
    drop(registered.into_vec()); //~ E0505
    elements.len()
}
