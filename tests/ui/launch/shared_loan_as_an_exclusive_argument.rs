//! A loan for reading lends no right to write.
use cupool::{
    Buffer, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(
    function: &Function,
    (stream, other): (&Stream, &Stream),
    config: LaunchConfig,
    mut buffer: Buffer<f32>,
) -> Result<()> {
    #[cfg(misuse)]
    let mut loan = buffer.read_on(other)?;
    #[cfg(not(misuse))]
    let mut loan = buffer.on(other)?;
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &(&mut loan,)) } //~ E0277
}
