//! Assigning another stream drops the one on which the buffer is at home.
use cupool::{Context, MemPool, Result, Stream};

pub fn f(pool: &MemPool, context: &Context, mut stream: Stream) -> Result<()> {
    let buffer = pool.alloc::<u8, _>(1, &stream)?;
    let other = Stream::new(context)?;
    #[cfg(misuse)]
    {
        stream = other; //~ E0506
    }
    buffer.free()?;
    #[cfg(not(misuse))]
    {
        stream = other;
    }
    stream.synchronize()
}
