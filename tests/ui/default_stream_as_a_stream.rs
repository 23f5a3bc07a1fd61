//! A default stream's handle means nothing without its context, so it must not pass for a stream that needs none.
use cupool::{Buffer, Context, LegacyStream, MemPool, Result, Stream};

pub fn f(pool: &MemPool, context: &Context, other: &Stream) -> Result<()> {
    let stream = LegacyStream::new(context)?;
    #[cfg(misuse)]
    let home: &Stream = &stream; //~ E0308
    #[cfg(not(misuse))]
    let (home, _) = (other, &stream);
    let _ = other;
    let _buffer: Buffer<u8, &Stream> = pool.alloc(10, home)?;
    Ok(())
}
