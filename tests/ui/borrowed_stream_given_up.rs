//! A borrowed stream is not the borrower's to give.
use cupool::StreamRef;

pub fn f(stream: StreamRef<'_>) {
    #[cfg(misuse)]
    let _parts = stream.into_raw_parts(); //~ E0507
    #[cfg(not(misuse))]
    let _raw = stream.as_raw();
}
