//! Outside the capture nothing is allocated at the address.
use cupool::{Context, Graph, GraphBuffer, MemPool, Result};

pub fn f(context: &Context, pool: &MemPool) -> Result<()> {
    let mut kept: Option<GraphBuffer<'_, u8>> = None;
    Graph::capture(context, |capture| {
        let own = capture.alloc::<u8>(pool, 10)?;
        #[cfg(misuse)]
        {
            kept = Some(own); //~ E0521
        }
        #[cfg(not(misuse))]
        own.free()?;
        Ok(())
    })?;
    drop(kept.take());
    Ok(())
}
