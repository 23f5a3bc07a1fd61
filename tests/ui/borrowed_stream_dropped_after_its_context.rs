//! Dropping the reference destroys the event by which other streams waited for the stream, in its context.
use cupool::{Context, Result, StreamRef, cuda_sys::CUstream};

pub fn f(context: Context, raw: CUstream) -> Result<()> {
    // SAFETY: not called.
    let stream = unsafe { StreamRef::borrow_raw(&context, raw) };
    stream.synchronize()?;
    #[cfg(misuse)]
    drop(context); //~ E0505
    Ok(())
}
