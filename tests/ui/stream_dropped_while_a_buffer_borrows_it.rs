//! The buffer's release is enqueued on its home stream, which must still be there.
use cupool::{MemPool, Result, Stream};

pub fn f(pool: &MemPool, stream: Stream) -> Result<()> {
    let buffer = pool.alloc::<u8, _>(1, &stream)?;
    #[cfg(misuse)]
    drop(stream); //~ E0505
    buffer.free()
}
