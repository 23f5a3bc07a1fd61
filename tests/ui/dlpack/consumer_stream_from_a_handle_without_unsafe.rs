//! The handle may be of no stream when the deleter is called.
use cupool::{cuda_sys::CUstream, dlpack::ConsumerStream};

pub fn f(stream: CUstream) -> ConsumerStream {
    #[cfg(misuse)]
    return ConsumerStream::from_raw(stream); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        ConsumerStream::from_raw(stream)
    }
}
