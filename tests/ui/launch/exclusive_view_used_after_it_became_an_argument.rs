//! An exclusive view is given away with the arguments; a reborrow is not.
use cupool::{
    DeviceSliceMut, Result, Stream,
    launch::{Function, LaunchConfig},
};

pub fn f(function: &Function, stream: &Stream, config: LaunchConfig, mut view: DeviceSliceMut<'_, f32>) -> Result<()> {
    #[cfg(misuse)]
    let arguments = (view,);
    #[cfg(not(misuse))]
    let arguments = (view.reborrow(),);
    // SAFETY: not called.
    unsafe { function.launch(stream, config, &arguments)? };
    view.fill_zero() //~ E0382
}
