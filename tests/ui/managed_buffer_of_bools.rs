//! Any bytes may be there, and most are no valid `bool`.
use cupool::{ManagedBuffer, Result, Stream};

#[cfg(misuse)]
type Element = bool;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(stream: &Stream) -> Result<usize> {
    Ok(ManagedBuffer::<u8, _>::alloc(10, stream)?.len() + size_of::<Element>() + size_of_managed())
}

fn size_of_managed() -> usize {
    size_of::<ManagedBuffer<Element>>() //~ E0277
}
