//! The buffer would be dropped with the arguments, and the kernel's work was enqueued on another stream perhaps.
use cupool::{
    Buffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, buffer: Buffer<f32>) -> Result<()> {
    #[cfg(not(misuse))]
    let buffer = &buffer;
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &(buffer,)) } //~ E0277
}
