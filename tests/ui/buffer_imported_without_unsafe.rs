//! What the other process does with the memory only the caller can vouch for.
use cupool::{
    Result, Stream,
    ipc::{ExportedPointer, ImportedBuffer, ImportedPool},
};

pub fn f<'a>(
    pool: &ImportedPool,
    pointer: &ExportedPointer,
    stream: &'a Stream,
) -> Result<ImportedBuffer<u8, &'a Stream>> {
    #[cfg(misuse)]
    return pool.import(pointer, stream); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        pool.import(pointer, stream)
    }
}
