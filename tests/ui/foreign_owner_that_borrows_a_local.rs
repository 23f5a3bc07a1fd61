//! The owner stays with the context until the device is done, beyond the end of what it borrows.
use cupool::{ForeignBuffer, Stream};

pub fn f(stream: &Stream) {
    let local = [0_u8; 10];
    #[cfg(misuse)]
    let owner = &local; //~ E0597
    #[cfg(not(misuse))]
    let owner = local;
    // SAFETY: not called.
    let _ = unsafe { ForeignBuffer::<u8, _, _>::new(0x1000, 10, stream, owner) };
}
