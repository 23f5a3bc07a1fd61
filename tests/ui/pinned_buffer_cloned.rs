//! Two owners would free the memory twice.
use cupool::PinnedBuffer;

pub fn f(buffer: PinnedBuffer<u8>) {
    #[cfg(misuse)]
    drop(buffer.clone()); //~ E0599
    drop(buffer);
}
