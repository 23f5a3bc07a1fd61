//! Nothing says that the stream waits for the producer's work.
use cupool::{
    Stream,
    dlpack::{ImportedTensor, ManagedTensor},
};

pub fn f(tensor: ManagedTensor, stream: &Stream) {
    #[cfg(misuse)]
    let _ = ImportedTensor::<f32, _>::from_managed(tensor, stream); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    let _ = unsafe { ImportedTensor::<f32, _>::from_managed(tensor, stream) };
}
