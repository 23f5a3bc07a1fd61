//! An event ends with its context.
use cupool::{Context, EventRef, Result, cuda_sys::CUevent};

pub fn f(context: Context, raw: CUevent) -> Result<()> {
    // SAFETY: not called.
    let event = unsafe { EventRef::borrow_raw(&context, raw) };
    #[cfg(misuse)]
    drop(context); //~ E0505
    event.synchronize()
}
