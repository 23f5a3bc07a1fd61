//! After the capture, work on the view would run, in no order with the buffer's home.
use cupool::{Buffer, Context, DeviceSlice, Graph, Result};

pub fn f(context: &Context, buffer: &Buffer<u8>) -> Result<()> {
    let mut kept: Option<DeviceSlice<'_, u8>> = None;
    Graph::capture(context, |capture| {
        let view = capture.slice(buffer.as_slice())?;
        #[cfg(misuse)]
        {
            kept = Some(view); //~ E0521
        }
        Ok(drop(view.len()))
    })?;
    drop(kept.take());
    Ok(())
}
