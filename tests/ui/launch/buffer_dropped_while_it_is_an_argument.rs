//! Freed memory is somebody else's when the kernel runs.
use cupool::{
    Buffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, buffer: Buffer<f32>) -> Result<()> {
    let arguments = (&buffer, 1_u32);
    #[cfg(misuse)]
    drop(buffer); //~ E0505
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) }
}
