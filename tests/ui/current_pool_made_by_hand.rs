//! A guard that was made by hand would restore what nobody replaced.
use cupool::{CurrentPool, MemPool, Result};

pub fn f(pool: &mut MemPool) -> Result<()> {
    #[cfg(misuse)]
    let _guard = CurrentPool { pool, number: 1 }; //~ E0451
    #[cfg(not(misuse))]
    let _guard: CurrentPool<'_> = pool.make_current()?;
    Ok(())
}
