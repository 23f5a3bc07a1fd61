//! The driver does not lock what is launched.
use cupool::{GraphExec, Result, Stream};

#[cfg(misuse)]
type Handle<'a> = &'a GraphExec;
#[cfg(not(misuse))]
type Handle<'a> = &'a mut GraphExec;

pub fn f(exec: Handle<'_>, stream: &Stream) -> Result<()> {
    // SAFETY: not called.
    unsafe { exec.launch(stream) } //~ E0596
}
