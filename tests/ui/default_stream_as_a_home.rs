//! A buffer is not at home on a default stream, whose handle means nothing without its context.
use cupool::{Context, LegacyStream, MemPool, Result, Stream};

pub fn f(pool: &MemPool, context: &Context, other: &Stream) -> Result<()> {
    let stream = LegacyStream::new(context)?;
    #[cfg(misuse)]
    let _buffer = pool.alloc::<u8, _>(10, &stream)?; //~ E0277
    #[cfg(not(misuse))]
    let _buffer = pool.alloc::<u8, _>(10, other)?;
    let _ = (other, stream);
    Ok(())
}
