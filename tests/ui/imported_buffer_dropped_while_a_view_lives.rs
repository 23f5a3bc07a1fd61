//! The mapping ends with the buffer.
use cupool::{Result, ipc::ImportedBuffer};

pub fn f(buffer: ImportedBuffer<u8>) -> Result<Vec<u8>> {
    let view = buffer.as_slice();
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    view.to_vec()
}
