//! Outside the capture nothing is allocated at the address.
use cupool::{Context, Graph, MemPool, Result};

pub fn f(context: &Context, pool: &MemPool) -> Result<()> {
    let (_graph, _own) = Graph::capture(context, |capture| {
        let own = capture.alloc::<u8>(pool, 10)?;
        #[cfg(misuse)]
        return Ok(own); //~ E0700
        #[cfg(not(misuse))]
        own.free()
    })?;
    Ok(())
}
