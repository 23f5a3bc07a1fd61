//! Bytes from the device would be taken for the address of something borrowed.
use cupool::{MemPool, Result, Stream};

#[cfg(misuse)]
type Element = &'static u8;
#[cfg(not(misuse))]
type Element = u64;

pub fn f(pool: &MemPool, stream: &Stream) -> Result<()> {
    drop(pool.alloc::<Element, _>(1, stream)?); //~ E0277
    Ok(())
}
