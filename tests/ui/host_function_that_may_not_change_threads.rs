//! A host function is called on a thread of the driver's.
use cupool::{PinnedBuffer, Result, Stream};

pub fn f(stream: &Stream, host: &PinnedBuffer<u8>) -> Result<()> {
    let address = host.as_raw();
    #[cfg(not(misuse))]
    let address = address.addr();
    stream.call_host(move || println!("{address:?}")) //~ E0277
}
