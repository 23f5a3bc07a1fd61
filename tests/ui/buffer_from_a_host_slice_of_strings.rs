//! The device would get pointers that mean nothing there.
use cupool::{MemPool, Result, Stream};

#[cfg(misuse)]
type Element = String;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(pool: &MemPool, stream: &Stream, source: &[Element]) -> Result<()> {
    drop(pool.alloc_from_host(source, stream)?); //~ E0277
    Ok(())
}
