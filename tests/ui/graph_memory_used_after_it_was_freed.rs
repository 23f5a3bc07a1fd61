//! Behind its free in the graph the memory is not there.
use cupool::{Context, Graph, MemPool, Result};

pub fn f(context: &Context, pool: &MemPool) -> Result<()> {
    Graph::capture(context, |capture| {
        let mut own = capture.alloc::<u8>(pool, 10)?;
        own.as_mut_slice().fill(1)?;
        own.free()?;
        #[cfg(misuse)]
        own.as_mut_slice().fill(2)?; //~ E0382
        Ok(())
    })?;
    Ok(())
}
