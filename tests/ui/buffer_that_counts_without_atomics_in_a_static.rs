//! A `static` is seen by every thread, and an `Rc` must be counted by one.
use std::{
    rc::Rc,
    sync::{Arc, Mutex},
};

use cupool::{Buffer, Stream};

#[cfg(misuse)]
type Handle = Rc<Stream>;
#[cfg(not(misuse))]
type Handle = Arc<Stream>;

pub static KEPT: Mutex<Option<Buffer<u8, Handle>>> = Mutex::new(None); //~ E0277
