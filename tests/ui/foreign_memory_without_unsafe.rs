//! Nothing says that the address is that of memory, nor that the owner keeps it.
use cupool::{ForeignBuffer, Stream};

pub fn f(stream: &Stream, owner: Box<[u8]>) {
    #[cfg(misuse)]
    let _ = ForeignBuffer::<u8, _, _>::new(0x1000, 10, stream, owner); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    let _ = unsafe { ForeignBuffer::<u8, _, _>::new(0x1000, 10, stream, owner) };
}
