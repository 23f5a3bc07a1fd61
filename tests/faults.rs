//! Every driver call fails: each call of each scenario, once and from then on, with every kind of code.
//!
//! A scenario is one small use of the public API. It is run once undisturbed, and then for every call that it makes
//! and every code, with that call failing, and with that call and all later ones failing; then also with the caller
//! panicking at the first error. Whatever fails:
//!
//! - nothing panics that is not told to, and nothing aborts;
//! - the simulated driver finds no misuse: nothing is freed twice, or too early, or without order;
//! - nothing is left behind but what `left` lists: what the failed call was to release;
//! - every failure is told, as an error or to the release hook, unless something stood in for the failed call or the
//!   driver is over; the errors print, and carry the code that was injected and no other;
//! - what is answered with success has happened: contents are compared wherever nothing has failed;
//! - the driver works afterwards.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CUPOOL_SCENARIO` | only the scenarios whose names contain this; with `--nocapture` each run is named before it starts |
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod faults {
    pub(crate) mod controls;
    pub(crate) mod coverage;
    pub(crate) mod left;
    pub(crate) mod scenarios;
    pub(crate) mod sweep;
    pub(crate) mod world;
}

use std::{
    collections::BTreeSet,
    io::{Write, stderr},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use faults::{scenarios, sweep};

#[test]
fn whatever_call_fails_nothing_breaks_and_nothing_is_lost_unsaid() {
    let wanted = std::env::var("CUPOOL_SCENARIO").ok();
    let mut chosen = scenarios::all();
    chosen.retain(|scenario| wanted.as_ref().is_none_or(|name| scenario.name.contains(name)));
    sweep::count_reports();
    let (next, runs, troubles) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let since = Instant::now();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(scenario) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let swept = sweep::sweep(scenario, wanted.is_some());
                    runs.fetch_add(swept.runs, Relaxed);
                    troubles.lock().unwrap().extend(swept.troubles);
                }
            });
        }
    });
    let (runs, troubles) = (runs.into_inner(), troubles.into_inner().unwrap());
    // Past the harness, which keeps what a test that passes prints to itself.
    writeln!(stderr(), "faults: {} scenarios, {runs} runs, {:.1?}", chosen.len(), since.elapsed()).unwrap();
    let (count, first) = (troubles.len(), troubles.iter().take(30).cloned().collect::<Vec<_>>().join("\n"));
    assert!(troubles.is_empty(), "{count} runs went wrong, among them\n{first}");
    assert!(runs > 0, "no scenario is named so");
}

#[test]
fn scenarios_are_many_and_have_names_of_their_own() {
    let names: Vec<&str> = scenarios::all().iter().map(|scenario| scenario.name).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names.len() >= 60, "{}", names.len());
}
