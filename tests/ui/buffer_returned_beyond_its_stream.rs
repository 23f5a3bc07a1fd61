//! A stream that ends with the function cannot be the home of a buffer that does not.
use cupool::{Buffer, Context, MemPool, Result, Stream};

pub fn f<'a>(pool: &MemPool, context: &Context, stream: &'a Stream) -> Result<Buffer<u8, &'a Stream>> {
    let local = Stream::new(context)?;
    stream.wait_for(&local)?;
    #[cfg(misuse)]
    let stream = &local;
    pool.alloc(1, stream) //~ E0515
}
