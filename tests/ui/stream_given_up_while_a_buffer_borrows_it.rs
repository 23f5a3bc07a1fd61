//! Whoever takes over the raw stream may destroy it, and the buffer's release is still to come there.
use cupool::{MemPool, Result, Stream};

pub fn f(pool: &MemPool, stream: Stream) -> Result<()> {
    let buffer = pool.alloc::<u8, _>(1, &stream)?;
    #[cfg(misuse)]
    let _ = stream.into_raw_parts(); //~ E0505
    buffer.free()
}
