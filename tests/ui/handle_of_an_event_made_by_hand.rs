//! Bytes that come from anywhere are checked first.
use cupool::{Result, ipc::EventHandle};

pub fn f(bytes: &[u8]) -> Result<EventHandle> {
    #[cfg(misuse)]
    return Ok(EventHandle { data: [0; 64], process: 0 }); //~ E0451
    EventHandle::from_bytes(bytes)
}
