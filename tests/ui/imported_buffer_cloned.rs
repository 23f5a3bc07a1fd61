//! Two owners would release one import twice; what is imported again is entered again.
use cupool::ipc::ImportedBuffer;

pub fn f(buffer: ImportedBuffer<u8>) {
    #[cfg(misuse)]
    drop(buffer.clone()); //~ E0599
    drop(buffer);
}
