//! The context is popped from the thread's stack after the work, and must live until then.
use cupool::{Context, Result};

pub fn f(context: Context) -> Result<()> {
    context.with_current(|| {
        //~^ E0505
        #[cfg(misuse)]
        drop(context);
        Ok(())
    })
}
