//! The scenarios, by what they are about.

mod beside_captures;
mod buffers;
mod copies;
mod default_streams;
mod ends;
mod events;
mod foreign;
mod graphs;
mod host_copies;
#[cfg(feature = "launch")]
mod launches;
mod loans;
mod managed;
mod objects;
mod pinned;
mod pool_kinds;
mod pools;
mod pressure;
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
    all.extend(managed::all());
    all.extend(foreign::all());
    all.extend(loans::all());
    all.extend(default_streams::all());
    #[cfg(unix)]
    all.extend(sharing::all());
    all.extend(ends::all());
    all.extend(copies::all());
    all.extend(objects::all());
    all.extend(pools::all());
    all.extend(beside_captures::all());
    all.extend(pool_kinds::all());
    all.extend(pressure::all());
    all.extend(buffers::all());
    all.extend(events::all());
    all.extend(graphs::all());
    #[cfg(feature = "launch")]
    all.extend(launches::all());
    all
}
