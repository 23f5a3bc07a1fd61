//! A buffer that owns its stream needs it for its release; only giving up the buffer gives it back.
use cupool::{Buffer, Stream};

pub fn f(buffer: Buffer<u8, Stream>) {
    #[cfg(misuse)]
    let stream: Stream = *buffer.stream(); //~ E0507
    #[cfg(not(misuse))]
    let (_, _, stream) = buffer.into_raw_parts();
    drop(stream);
}
