//! Imported memory is lent for reading only.
use cupool::{Result, ipc::ImportedBuffer};

pub fn f(buffer: &ImportedBuffer<u8>) -> Result<Vec<u8>> {
    #[cfg(misuse)]
    buffer.as_slice().fill(1)?; //~ E0599
    buffer.as_slice().to_vec()
}
