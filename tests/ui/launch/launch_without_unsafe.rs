//! What a kernel does with its arguments, nobody checks.
use cupool::{
    Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig) -> Result<()> {
    #[cfg(misuse)]
    return function.launch(stream, config, &()); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        function.launch(stream, config, &())
    }
}
