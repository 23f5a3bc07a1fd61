//! Nothing would keep the host from looking at the elements while the kernel runs.
use cupool::{
    Buffer, PinnedBuffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

#[cfg(misuse)]
type Memory<'a> = &'a PinnedBuffer<f32>;
#[cfg(not(misuse))]
type Memory<'a> = &'a Buffer<f32>;

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, memory: Memory<'_>) -> Result<()> {
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &(memory,)) } //~ E0277
}
