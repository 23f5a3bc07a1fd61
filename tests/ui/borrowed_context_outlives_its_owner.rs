//! A context that somebody keeps alive for so long cannot be used for longer.
use cupool::{Context, ContextRef, Result};

fn borrow(context: &Context) -> ContextRef<'_> {
    // SAFETY: the context lives for as long as it is borrowed.
    unsafe { ContextRef::borrow_raw(context.device(), context.as_raw()) }
}

pub fn f(context: Context) -> Result<()> {
    let borrowed = borrow(&context);
    #[cfg(misuse)]
    drop(context); //~ E0505
    borrowed.synchronize()
}
