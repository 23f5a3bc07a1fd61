//! The last owner may be the host function, where the stream cannot be destroyed.
use std::sync::Arc;

use cupool::{Result, Stream};

pub fn f(stream: &Arc<Stream>) -> Result<()> {
    let shared = Arc::clone(stream);
    #[cfg(not(misuse))]
    let shared = shared.id()?;
    stream.call_host(move || println!("{shared:?}")) //~ E0277
}
