//! A borrowed event is not the borrower's to give.
use cupool::EventRef;

pub fn f(event: EventRef<'_>) {
    #[cfg(misuse)]
    let _parts = event.into_raw_parts(); //~ E0507
    #[cfg(not(misuse))]
    let _raw = event.as_raw();
}
