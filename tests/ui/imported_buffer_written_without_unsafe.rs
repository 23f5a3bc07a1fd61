//! Others have the memory too: whoever writes it says that nobody else uses it meanwhile.
use cupool::{Result, ipc::ImportedBuffer};

pub fn f(buffer: &mut ImportedBuffer<u8>) -> Result<()> {
    #[cfg(misuse)]
    buffer.as_mut_slice().fill(1)?; //~ E0133
    // SAFETY: not called.
    unsafe { buffer.as_mut_slice() }.fill(1)
}
