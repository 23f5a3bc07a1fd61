//! Behind its free in the graph the memory is not there, for views neither.
use cupool::{Context, Graph, MemPool, Result};

pub fn f(context: &Context, pool: &MemPool) -> Result<()> {
    Graph::capture(context, |capture| {
        let mut own = capture.alloc::<u8>(pool, 10)?;
        let mut view = own.as_mut_slice();
        #[cfg(misuse)]
        own.free()?; //~ E0505
        view.fill(1)
    })?;
    Ok(())
}
