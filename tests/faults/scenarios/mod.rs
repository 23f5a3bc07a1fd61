//! The scenarios, by what they are about.

mod buffers;
mod copies;
mod ends;
mod events;
mod host_copies;
#[cfg(feature = "launch")]
mod launches;
mod loans;
mod objects;
mod pinned;
mod pools;
#[cfg(unix)]
mod sharing;
mod threads;

use super::world::Scenario;

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    // Those with the most calls first, so that none of them is left for the end.
    all.extend(host_copies::all());
    all.extend(threads::all());
    all.extend(pinned::all());
    all.extend(loans::all());
    #[cfg(unix)]
    all.extend(sharing::all());
    all.extend(ends::all());
    all.extend(copies::all());
    all.extend(objects::all());
    all.extend(pools::all());
    all.extend(buffers::all());
    all.extend(events::all());
    #[cfg(feature = "launch")]
    all.extend(launches::all());
    all
}
