//! The consumer calls the deleter when it likes, perhaps after the stream's end.
use std::sync::Arc;

use cupool::{Buffer, Stream, dlpack::ConsumerStream};

#[cfg(misuse)]
pub fn f<'a>(buffer: Buffer<f32, &'a Stream>) {
    let _ = buffer.into_dlpack(&[1], ConsumerStream::HOME); //~ E0521
}

#[cfg(not(misuse))]
pub fn f(buffer: Buffer<f32, Arc<Stream>>) {
    let _ = buffer.into_dlpack(&[1], ConsumerStream::HOME);
}
