//! Arguments stay borrowed until the launch is enqueued.
use cupool::{
    Buffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, mut buffer: Buffer<f32>) -> Result<()> {
    let arguments = (&mut buffer, 1_u32);
    #[cfg(misuse)]
    buffer.fill_zero()?; //~ E0499
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) }
}
