//! Through `&mut` the stream could be replaced while the buffer is at home on it.
use cupool::{MemPool, Result, Stream};

pub fn f(pool: &MemPool, stream: &mut Stream) -> Result<()> {
    #[cfg(not(misuse))]
    let stream = &*stream;
    drop(pool.alloc::<u8, _>(1, stream)?); //~ E0277
    Ok(())
}
