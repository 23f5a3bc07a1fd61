//! The device may write bytes that are no string.
use cupool::{Context, Registered};

#[cfg(misuse)]
type Element = String;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(context: &Context, memory: Vec<Element>) {
    let _registered = Registered::from_vec(context, memory); //~ E0277
}
