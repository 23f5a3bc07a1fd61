//! The stream of a capture is gone after it.
use cupool::{Context, Graph, Result, Stream};

pub fn f(context: &Context) -> Result<()> {
    let mut kept: Option<&Stream> = None;
    Graph::capture(context, |capture| {
        let stream = capture.stream();
        #[cfg(misuse)]
        {
            kept = Some(stream); //~ E0521
        }
        Ok(drop(stream.as_raw()))
    })?;
    drop(kept.take());
    Ok(())
}
