//! Whoever has the raw event may have destroyed it.
use cupool::{Event, Result};

pub fn f(event: Event) -> Result<()> {
    #[cfg(misuse)]
    let _parts = event.into_raw_parts();
    event.synchronize() //~ E0382
}
