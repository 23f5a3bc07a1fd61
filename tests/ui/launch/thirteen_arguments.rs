//! There is no tuple of so many.
use cupool::{
    Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig) -> Result<()> {
    let arguments = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    #[cfg(misuse)]
    let arguments = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13);
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) } //~ E0277
}
