//! A capture is ended by the thread that began it, and what it notes is not locked.
use std::thread;

use cupool::{Context, Graph, MemPool, Result};

pub fn f(context: &Context, pool: &MemPool) -> Result<()> {
    Graph::capture(context, |capture| {
        thread::scope(|scope| {
            #[cfg(misuse)]
            scope.spawn(|| capture.alloc::<u8>(pool, 10).is_ok()); //~ E0277
            #[cfg(not(misuse))]
            scope.spawn(|| pool.as_raw().is_null());
        });
        drop(capture.alloc::<u8>(pool, 10)?);
        Ok(())
    })?;
    Ok(())
}
