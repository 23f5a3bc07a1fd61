//! The stream's own objects are made and destroyed in the context that it was borrowed with.
use cupool::{Context, Result, StreamRef, cuda_sys::CUstream};

pub fn f(context: Context, raw: CUstream) -> Result<()> {
    // SAFETY: not called.
    let stream = unsafe { StreamRef::borrow_raw(&context, raw) };
    #[cfg(misuse)]
    drop(context); //~ E0505
    stream.synchronize()
}
