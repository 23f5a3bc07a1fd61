//! The driver finds an image's length in it, and reads so far.
use cupool::{Context, Result, launch::Module};

pub fn f(context: &Context, image: &[u8]) -> Result<Module> {
    #[cfg(misuse)]
    return Module::from_image(context, image); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Module::from_image(context, image)
    }
}
