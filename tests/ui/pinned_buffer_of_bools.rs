//! The device may write bytes that are no `bool`.
use cupool::{Context, PinnedBuffer, Result};

#[cfg(misuse)]
type Element = bool;
#[cfg(not(misuse))]
type Element = u8;

pub fn f(context: &Context) -> Result<()> {
    drop(PinnedBuffer::<Element>::new(context, 1)?); //~ E0599
    Ok(())
}
