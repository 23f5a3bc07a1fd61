//! The kernel would write what it was given to read.
use cupool::{
    Buffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(
    function: &Function,
    stream: &Stream,
    config: LaunchConfig,
    mut out: Buffer<f32>,
    source: Buffer<f32>,
) -> Result<()> {
    #[cfg(misuse)]
    let arguments = (
        &mut out, &out, //~ E0502
    );
    #[cfg(not(misuse))]
    let arguments = (&mut out, &source);
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) }
}
