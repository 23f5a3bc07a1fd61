//! Nobody checks that the handle is a stream, nor for how long.
use cupool::{Context, StreamRef, cuda_sys::CUstream};

pub fn f(context: &Context, raw: CUstream) -> StreamRef<'_> {
    #[cfg(misuse)]
    return StreamRef::borrow_raw(context, raw); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        StreamRef::borrow_raw(context, raw)
    }
}
