//! Nobody checks that there is such an allocation, nor whose it is.
use cupool::{Buffer, Stream};

pub fn f(stream: &Stream) -> Buffer<u8, &Stream> {
    #[cfg(misuse)]
    return Buffer::from_raw_parts(4096, 1, stream); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: address 0 owns nothing.
    unsafe {
        Buffer::from_raw_parts(0, 0, stream)
    }
}
