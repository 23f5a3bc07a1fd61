//! A graph can outlive what the buffer borrows.
use std::sync::Arc;

use cupool::{Buffer, Capture, Result, Stream};

#[cfg(misuse)]
type Handle<'a> = &'a Stream;
#[cfg(not(misuse))]
type Handle<'a> = Arc<Stream>;

pub fn f<'a>(capture: &Capture<'_>, buffer: Buffer<u8, Handle<'a>>) -> Result<()> {
    capture.keep_buffer(buffer) //~ E0521
}
