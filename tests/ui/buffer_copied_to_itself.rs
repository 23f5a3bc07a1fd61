//! The driver's copies take no ranges that overlap.
use cupool::{Buffer, Result};

pub fn f(mut buffer: Buffer<u8>, other: &Buffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    buffer.copy_from(buffer.as_slice())?; //~ E0502
    buffer.copy_from(other.as_slice())
}
