//! Two owners would destroy the event twice.
use cupool::Event;

pub fn f(event: Event) {
    #[cfg(misuse)]
    drop(event.clone()); //~ E0599
    drop(event);
}
