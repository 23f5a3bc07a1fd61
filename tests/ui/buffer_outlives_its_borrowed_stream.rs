//! A buffer that holds a borrowed stream borrows what the stream does.
use cupool::{Context, MemPool, Result, StreamRef, cuda_sys::CUstream};

pub fn f(pool: &MemPool, context: Context, raw: CUstream) -> Result<()> {
    // SAFETY: not called.
    let stream = unsafe { StreamRef::borrow_raw(&context, raw) };
    let buffer = pool.alloc::<u8, _>(1, stream)?;
    #[cfg(misuse)]
    drop(context); //~ E0505
    buffer.free()
}
