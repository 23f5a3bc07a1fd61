//! A thread that nobody waits for may outlive the stream that the buffer borrows.
use std::thread;

use cupool::{Context, MemPool, Result, Stream};

pub fn f(pool: &MemPool, context: &Context) -> Result<()> {
    let stream = Stream::new(context)?;
    #[cfg(misuse)]
    let buffer = pool.alloc::<u8, _>(1, &stream)?; //~ E0597
    #[cfg(not(misuse))]
    let buffer = pool.alloc::<u8, _>(1, stream)?;
    thread::spawn(move || drop(buffer));
    Ok(())
}
