//! Two parameters would write the same memory.
use cupool::{
    Buffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, mut buffer: Buffer<f32>) -> Result<()> {
    #[cfg(misuse)]
    let arguments = (
        buffer.slice_mut(..8)?,
        buffer.slice_mut(4..)?, //~ E0499
    );
    #[cfg(not(misuse))]
    let arguments = buffer.as_mut_slice().split_at(4)?;
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) }
}
