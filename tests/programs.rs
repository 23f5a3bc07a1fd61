//! Whole programs over the safe API, made up from a seed and run on the simulated driver: whatever they do, contents
//! are right, the checker finds nothing, and nothing is left but the memory whose loans were forgotten. And if any one
//! ordering is left out, that is found.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CUPOOL_SEEDS` | how many programs, 300 unless set |
//! | `CUPOOL_SEED` | the first seed, 0 unless set |
//! | `CUPOOL_OPERATIONS` | operations in each, 1000 unless set |
//!
//! `CUPOOL_SEEDS=10000 cargo test --release --features launch --test programs -- --nocapture` is the long run.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod programs {
    pub(crate) mod choices;
    pub(crate) mod controls;
    #[cfg(feature = "launch")]
    pub(crate) mod launches;
    pub(crate) mod loans;
    pub(crate) mod model;
    pub(crate) mod orders;
    pub(crate) mod pinned;
    pub(crate) mod runner;
    pub(crate) mod views;
    pub(crate) mod world;
}

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use programs::{
    controls::Rule,
    runner::{Program, search, setting},
};

#[test]
fn programs_come_out_right_whatever_they_do() {
    let (first, seeds, steps) =
        (setting("CUPOOL_SEED", 0), setting("CUPOOL_SEEDS", 300), setting("CUPOOL_OPERATIONS", 1000));
    let (operations, leaked) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed = search(first, seeds, |seed| {
        let program = Program { seed, steps, without: None, log: false };
        let outcome = std::panic::catch_unwind(|| program.run());
        let Ok(outcome) = outcome else { return Some("it panicked".to_owned()) };
        operations.fetch_add(outcome.operations, Relaxed);
        leaked.fetch_add(outcome.leaked as u64, Relaxed);
        outcome.trouble()
    });
    println!("seeds {seeds}, operations {}, forgotten loans {}", operations.into_inner(), leaked.into_inner());
    if let Some((seed, trouble)) = failed {
        panic!(
            "seed {seed}: {trouble}\nreplay: CUPOOL_SEED={seed} CUPOOL_SEEDS=1 CUPOOL_OPERATIONS={steps} cargo test \
             --test programs programs_come_out_right -- --nocapture"
        );
    }
    println!("findings 0");
}

#[test]
fn every_ordering_that_is_left_out_is_found() {
    for rule in Rule::ALL {
        let found = search(0, 1000, |seed| {
            let outcome = Program { seed, steps: 300, without: Some(*rule), log: false }.run();
            let first = outcome.findings.first().map(ToString::to_string);
            first.or(outcome.wrong.map(|wrong| format!("contents: {wrong}")))
        });
        match found {
            Some((seed, what)) => println!("{rule:?}: after {} seeds: {what}", seed + 1),
            None => panic!("without {rule:?} nothing is found in 1000 seeds"),
        }
    }
}
