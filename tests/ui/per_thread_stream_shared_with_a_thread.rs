//! A per-thread default stream's handle means another stream on another thread.
use cupool::{Context, LegacyStream, PerThreadStream, Result};

#[cfg(misuse)]
type Default = PerThreadStream;
#[cfg(not(misuse))]
type Default = LegacyStream;

pub fn f(context: &Context) -> Result<()> {
    let _ = PerThreadStream::new(context)?;
    let stream = Default::new(context)?;
    std::thread::scope(|scope| {
        scope.spawn(|| stream.synchronize()); //~ E0277
    });
    Ok(())
}
