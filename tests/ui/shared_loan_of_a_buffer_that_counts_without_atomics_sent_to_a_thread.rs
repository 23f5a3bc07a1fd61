//! A loan reaches the buffer, and with it the `Rc` by which that holds its stream.
use std::{rc::Rc, sync::Arc, thread};

use cupool::{Buffer, Result, Stream};

#[cfg(misuse)]
type Handle = Rc<Stream>;
#[cfg(not(misuse))]
type Handle = Arc<Stream>;

pub fn f(buffer: Buffer<u8, Handle>, other: &Stream) -> Result<()> {
    let loan = buffer.read_on(other)?;
    thread::scope(|scope| {
        scope.spawn(|| drop(loan)); //~ E0277
    });
    Ok(())
}
