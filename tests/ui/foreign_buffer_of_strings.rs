//! What the device or others write there need not be a string.
use cupool::{ForeignBuffer, Stream};

#[cfg(misuse)]
type Element = String;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(ours: Option<ForeignBuffer<Element, (), &Stream>>) -> bool { //~ E0277
    ours.is_some()
}
