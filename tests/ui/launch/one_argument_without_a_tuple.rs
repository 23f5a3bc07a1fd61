//! All arguments are a tuple, one of them too.
use cupool::{
    Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig) -> Result<()> {
    let arguments = 1_u32;
    #[cfg(not(misuse))]
    let arguments = (arguments,);
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) } //~ E0277
}
