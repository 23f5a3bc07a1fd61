//! The retain is the caller's now, to release when they like.
use cupool::{Context, Result};

pub fn f(context: Context) -> Result<()> {
    #[cfg(misuse)]
    let _raw = context.into_raw()?;
    context.synchronize() //~ E0382
}
