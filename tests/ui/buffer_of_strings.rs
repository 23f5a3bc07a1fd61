//! Bytes from the device would be taken for a pointer, a length and a capacity.
use cupool::{MemPool, Result, Stream};

#[cfg(misuse)]
type Element = String;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(pool: &MemPool, stream: &Stream) -> Result<()> {
    drop(pool.alloc::<Element, _>(1, stream)?); //~ E0277
    Ok(())
}
