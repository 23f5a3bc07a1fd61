//! Arguments stay borrowed until the launch is enqueued.
use cupool::{
    DeviceSliceMut, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, mut view: DeviceSliceMut<'_, f32>) -> Result<()> {
    let arguments = (view.reborrow(),);
    #[cfg(misuse)]
    view.fill_zero()?; //~ E0499
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments) }
}
