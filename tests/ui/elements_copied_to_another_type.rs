//! A copy does not convert.
use cupool::{Buffer, Result};

#[cfg(misuse)]
type Element = u32;
#[cfg(not(misuse))]
type Element = f32;

pub fn f(buffer: &mut Buffer<f32>, source: &Buffer<Element>) -> Result<()> {
    buffer.copy_from(source.as_slice()) //~ E0308
}
