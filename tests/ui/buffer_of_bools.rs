//! Memory that was never written may hold bytes that are no `bool`.
use cupool::{MemPool, Result, Stream};

#[cfg(misuse)]
type Element = bool;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(pool: &MemPool, stream: &Stream) -> Result<()> {
    drop(pool.alloc::<Element, _>(1, stream)?); //~ E0277
    Ok(())
}
