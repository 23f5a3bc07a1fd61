//! An `Rc` must not be counted by two threads, so neither may a buffer that holds its stream by one move to another.
use std::{rc::Rc, sync::Arc, thread};

use cupool::{Buffer, Stream};

#[cfg(misuse)]
type Handle = Rc<Stream>;
#[cfg(not(misuse))]
type Handle = Arc<Stream>;

pub fn f(buffer: Buffer<u8, Handle>) {
    thread::spawn(move || drop(buffer)); //~ E0277
}
