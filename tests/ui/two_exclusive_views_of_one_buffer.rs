//! Two views that write the same memory would not be exclusive; `split_at` makes two that are.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    let (mut left, mut right) = (
        buffer.slice_mut(..8)?,
        buffer.slice_mut(4..)?, //~ E0499
    );
    #[cfg(not(misuse))]
    let (mut left, mut right) = buffer.as_mut_slice().split_at(4)?;
    left.fill(1)?;
    right.fill(2)
}
