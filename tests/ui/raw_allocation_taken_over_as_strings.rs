//! Not even `unsafe` makes a buffer of what is no plain data.
use cupool::{Buffer, Stream};

#[cfg(misuse)]
type Element = String;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(stream: &Stream) {
    // SAFETY: address 0 owns nothing.
    drop(unsafe { Buffer::<Element, _>::from_raw_parts(0, 0, stream) }); //~ E0599
}
