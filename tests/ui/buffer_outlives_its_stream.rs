//! A buffer frees its memory on its home stream, so it must not outlive a stream that it borrows.
use cupool::{Context, MemPool, Result, Stream};

pub fn f(pool: &MemPool, context: &Context) -> Result<()> {
    #[cfg(misuse)]
    let mut kept = Vec::new(); // dropped after the stream
    let stream = Stream::new(context)?;
    #[cfg(not(misuse))]
    let mut kept = Vec::new();
    kept.push(pool.alloc::<u8, _>(1, &stream)?); //~ E0597
    Ok(())
}
