//! Padding has no value to copy. Who has none says so, by bytemuck's `Pod`.
use bytemuck::{Pod, Zeroable};
use cupool::{MemPool, Result, Stream};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Element {
    narrow: u8,
    #[cfg(misuse)]
    wide: u32,
}

// SAFETY: one byte, and any will do.
#[cfg(not(misuse))]
unsafe impl Zeroable for Element {}
// SAFETY: as above.
#[cfg(not(misuse))]
unsafe impl Pod for Element {}

pub fn f(pool: &MemPool, stream: &Stream) -> Result<()> {
    drop(pool.alloc::<Element, _>(1, stream)?); //~ E0277
    Ok(())
}
