//! Memory that was never written, or filled with zero, may hold a zero.
use core::num::NonZero;

use cupool::{MemPool, Result, Stream};

#[cfg(misuse)]
type Element = NonZero<u32>;
#[cfg(not(misuse))]
type Element = u32;

pub fn f(pool: &MemPool, stream: &Stream) -> Result<()> {
    drop(pool.alloc_zeroed::<Element, _>(1, stream)?); //~ E0277
    Ok(())
}
