//! Others may look at the memory through the same kind of reference.
use cupool::{Buffer, Result};

#[cfg(misuse)]
type Reference<'a> = &'a Buffer<u8>;
#[cfg(not(misuse))]
type Reference<'a> = &'a mut Buffer<u8>;

pub fn f(buffer: Reference<'_>) -> Result<()> {
    buffer.fill(1) //~ E0596
}
