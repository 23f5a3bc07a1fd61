//! It would be released again at the end of its scope.
use cupool::Buffer;

pub fn f(mut buffer: Buffer<u8>) {
    #[cfg(misuse)]
    Drop::drop(&mut buffer); //~ E0040
    buffer.as_mut_slice();
}
