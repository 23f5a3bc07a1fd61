//! Another stream has the memory to itself.
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
    let mut loan = buffer.on(other)?;
    #[cfg(misuse)]
    let arguments = (&buffer,); //~ E0502
    #[cfg(not(misuse))]
    let arguments = (loan.as_slice(),);
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments)? };
    loan.as_mut_slice().fill_zero()
}
