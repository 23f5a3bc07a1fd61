//! The owner is dropped by whoever finds that the device is done, on whatever thread.
use std::{rc::Rc, sync::Arc};

use cupool::{ForeignBuffer, Stream};

pub fn f(stream: &Stream) {
    #[cfg(misuse)]
    let owner = Rc::new(());
    #[cfg(not(misuse))]
    let owner = Arc::new(());
    // SAFETY: not called.
    let _ = unsafe { ForeignBuffer::<u8, _, _>::new(0x1000, 10, stream, owner) }; //~ E0277
}
