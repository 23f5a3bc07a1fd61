//! With `&mut` to the stream behind a reference, it could be exchanged for one that is owned.
use cupool::{Stream, StreamRef};

pub fn f(mut stream: StreamRef<'_>) {
    #[cfg(misuse)]
    let _stream: &mut Stream = &mut *stream; //~ E0596
    #[cfg(not(misuse))]
    let _stream: &mut StreamRef<'_> = &mut stream;
}
