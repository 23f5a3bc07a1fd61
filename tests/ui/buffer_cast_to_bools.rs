//! Numbers from the device need not be 0 or 1.
use cupool::Buffer;

#[cfg(misuse)]
type Element = bool;
#[cfg(not(misuse))]
type Element = i8;

pub fn f(buffer: Buffer<u8>) {
    let _cast = buffer.cast::<Element>(); //~ E0277
}
