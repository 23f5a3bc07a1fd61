//! Two owners would destroy the stream twice; an `Arc` shares it.
use std::sync::Arc;

use cupool::Stream;

pub fn f(stream: Stream) {
    #[cfg(not(misuse))]
    let stream = Arc::new(stream);
    drop(stream.clone()); //~ E0599
    drop::<Arc<Stream>>(stream.into());
}
