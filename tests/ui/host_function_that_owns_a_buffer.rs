//! The driver forbids calls in host functions, so nothing that would be released there may get in.
use cupool::{Buffer, Result, Stream};

pub fn f(stream: &Stream, buffer: Buffer<u8>) -> Result<()> {
    #[cfg(not(misuse))]
    let buffer = buffer.len();
    stream.call_host(move || println!("{buffer:?}")) //~ E0277
}
