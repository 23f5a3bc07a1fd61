//! A loan is fenced where it begins.
use cupool::{Buffer, Result, SharedLoan, Stream};

pub fn f<'a>(buffer: &'a Buffer<u8, &'a Stream>, stream: &'a Stream) -> Result<SharedLoan<'a, u8, &'a Stream>> {
    #[cfg(misuse)]
    return Ok(SharedLoan { buffer, stream }); //~ E0451
    #[cfg(not(misuse))]
    buffer.read_on(stream)
}
