//! How wide a parameter of truth is, each language says for itself; numbers say it.
use cupool::{
    Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, flag: bool) -> Result<()> {
    #[cfg(not(misuse))]
    let flag = u8::from(flag);
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &(flag,)) } //~ E0277
}
