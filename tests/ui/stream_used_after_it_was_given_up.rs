//! No stream is left with a null handle, which to the driver is the default stream.
use cupool::{Result, Stream};

pub fn f(stream: Stream) -> Result<()> {
    #[cfg(misuse)]
    let _parts = stream.into_raw_parts();
    stream.synchronize() //~ E0382
}
