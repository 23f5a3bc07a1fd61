//! Nobody checks that the handle is a stream, nor whose it is.
use cupool::{Context, Stream, cuda_sys::CUstream};

pub fn f(raw: CUstream, context: Context) -> Stream {
    #[cfg(misuse)]
    return Stream::from_raw_parts(raw, context); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Stream::from_raw_parts(raw, context)
    }
}
