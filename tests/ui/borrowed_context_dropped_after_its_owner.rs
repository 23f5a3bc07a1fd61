//! Dropping the reference frees in the context what copies through the reference had staged there.
use cupool::{Context, ContextRef, Result};

fn borrow(context: &Context) -> ContextRef<'_> {
    // SAFETY: the context lives for as long as it is borrowed.
    unsafe { ContextRef::borrow_raw(context.device(), context.as_raw()) }
}

pub fn f(context: Context) -> Result<()> {
    let borrowed = borrow(&context);
    borrowed.synchronize()?;
    #[cfg(misuse)]
    drop(context); //~ E0505
    Ok(())
}
