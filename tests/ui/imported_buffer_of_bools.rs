//! Another process can write anything there, and not every byte is a `bool`.
use cupool::{
    Stream,
    ipc::{ExportedPointer, ImportedPool},
};

pub fn f(pool: &ImportedPool, pointer: &ExportedPointer, stream: &Stream) {
    // SAFETY: not called.
    unsafe {
        drop(pool.import::<u8, _>(pointer, stream));
        #[cfg(misuse)]
        drop(pool.import::<bool, _>(pointer, stream)); //~ E0277
    }
}
