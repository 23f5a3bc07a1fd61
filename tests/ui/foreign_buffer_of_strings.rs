//! What the device or others write there need not be a string.
use cupool::{ForeignBuffer, Stream};

pub fn f(stream: &Stream) {
    #[cfg(misuse)]
    type Element = String;
    #[cfg(not(misuse))]
    type Element = u8;
    // SAFETY: not called.
    let _ = unsafe { ForeignBuffer::<Element, _, _>::new(0x1000, 10, stream, ()) }; //~ E0277
}
