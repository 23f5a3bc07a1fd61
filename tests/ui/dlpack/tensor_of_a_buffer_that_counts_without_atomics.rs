//! The consumer calls the deleter on whatever thread.
use std::{rc::Rc, sync::Arc};

use cupool::{Buffer, Stream, dlpack::ConsumerStream};

#[cfg(misuse)]
pub fn f(buffer: Buffer<f32, Rc<Stream>>) {
    let _ = buffer.into_dlpack(&[1], ConsumerStream::HOME); //~ E0599
}

#[cfg(not(misuse))]
pub fn f(buffer: Buffer<f32, Arc<Stream>>) {
    let _ = buffer.into_dlpack(&[1], ConsumerStream::HOME);
}
