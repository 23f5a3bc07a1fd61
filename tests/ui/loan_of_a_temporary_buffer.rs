//! A buffer that is nobody's is freed at the end of the statement, whoever has it then.
use cupool::{MemPool, Result, Stream};

pub fn f(pool: &MemPool, stream: &Stream, other: &Stream) -> Result<()> {
    #[cfg(misuse)]
    let mut loan = pool.alloc::<u8, _>(1, stream)?.on(other)?; //~ E0716
    #[cfg(not(misuse))]
    let mut buffer = pool.alloc::<u8, _>(1, stream)?;
    #[cfg(not(misuse))]
    let mut loan = buffer.on(other)?;
    loan.as_mut_slice().fill(1)
}
