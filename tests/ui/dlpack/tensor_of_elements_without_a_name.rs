//! The protocol has no name for them.
use cupool::{Buffer, dlpack::ConsumerStream};

#[cfg(misuse)]
type Element = [u8; 3];
#[cfg(not(misuse))]
type Element = u8;

pub fn f(buffer: Buffer<Element>) {
    let _ = buffer.into_dlpack(&[1], ConsumerStream::HOME); //~ E0599
}
