//! The view would read on the home stream what the other stream writes.
use cupool::{Buffer, Result, Stream};

pub fn f(mut buffer: Buffer<u8>, other: &Stream) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    drop(buffer.on(other)?); //~ E0502
    view.to_vec()
}
