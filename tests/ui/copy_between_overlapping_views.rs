//! The driver's copies take no ranges that overlap; `split_at` gives two that do not.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    let (mut left, right) = (
        buffer.slice_mut(..8)?,
        buffer.slice(4..12)?, //~ E0502
    );
    #[cfg(not(misuse))]
    let (mut left, right) = buffer.as_mut_slice().split_at(8)?;
    #[cfg(not(misuse))]
    let right = right.as_slice();
    left.copy_from(right)
}
