//! A buffer that is nobody's is freed at the end of the statement, and its memory with it.
use cupool::{MemPool, Result, Stream};

pub fn f(pool: &MemPool, stream: &Stream) -> Result<Vec<u8>> {
    #[cfg(misuse)]
    let view = pool.alloc_zeroed::<u8, _>(1, stream)?.as_slice(); //~ E0716
    #[cfg(not(misuse))]
    let buffer = pool.alloc_zeroed::<u8, _>(1, stream)?;
    #[cfg(not(misuse))]
    let view = buffer.as_slice();
    view.to_vec()
}
