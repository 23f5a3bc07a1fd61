//! What the device or others write there need not be a string.
use cupool::{ForeignBuffer, Stream};

#[cfg(misuse)]
type Element = String;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(_: &ForeignBuffer<Element, (), &Stream>) {} //~ E0277
