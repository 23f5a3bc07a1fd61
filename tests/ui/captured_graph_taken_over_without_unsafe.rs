//! Nobody checks that the handle is a graph, nor whose it is.
use cupool::{Context, Graph, Result, cuda_sys::CUgraph};

pub fn f(raw: CUgraph, context: &Context) -> Result<Graph> {
    #[cfg(misuse)]
    return Graph::from_raw(context, raw); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Graph::from_raw(context, raw)
    }
}
