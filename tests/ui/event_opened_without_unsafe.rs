//! The process that exported an event may destroy it.
use cupool::{
    Context, Result,
    ipc::{EventHandle, InterprocessEvent},
};

pub fn f(context: &Context, handle: &EventHandle) -> Result<InterprocessEvent> {
    #[cfg(misuse)]
    return InterprocessEvent::open(context, handle); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        InterprocessEvent::open(context, handle)
    }
}
