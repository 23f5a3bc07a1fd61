//! Nobody checks that the memory that was captured is there, and in order on this stream.
use cupool::{GraphExec, Result, Stream};

pub fn f(mut exec: GraphExec, stream: &Stream) -> Result<()> {
    #[cfg(misuse)]
    return exec.launch(stream); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        exec.launch(stream)
    }
}
