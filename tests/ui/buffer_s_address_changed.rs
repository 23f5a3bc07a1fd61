//! What was allocated is what is freed.
use cupool::Buffer;

pub fn f(mut buffer: Buffer<u8>) {
    #[cfg(misuse)]
    {
        buffer.address = 4096; //~ E0616
    }
    buffer.as_mut_slice();
}
