//! A stream handle must name the same stream for as long as it lives, so only this crate says what is one.
use cupool::{Stream, StreamHandle};

pub struct Fickle(Stream);

#[cfg(misuse)]
impl StreamHandle for Fickle {
    //~^ E0277
    fn stream(&self) -> &Stream {
        &self.0
    }
}

pub fn f(fickle: &Fickle) -> &Stream {
    StreamHandle::stream(&fickle.0)
}
