//! Nobody checks that the handle is an event, nor whose it is.
use cupool::{Context, Event, cuda_sys::CUevent};

pub fn f(raw: CUevent, context: Context) -> Event {
    #[cfg(misuse)]
    return Event::from_raw_parts(raw, context); //~ E0133
    #[cfg(not(misuse))]
    // SAFETY: not called.
    unsafe {
        Event::from_raw_parts(raw, context)
    }
}
