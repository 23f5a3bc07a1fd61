//! The log of releases that failed, and the hook that is told of them.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use cupool::{Error, recent_release_failures, release_failures, set_release_hook};
use cupool_sim::{CUresult, Symbol};
use shuttle::thread;

use crate::world::{Left, World, alone, check};

thread_local! {
    /// Failures that hooks were told of, by one of the two.
    static TOLD: [Cell<u64>; 2] = const { [Cell::new(0), Cell::new(0)] };
}

/// A hook that takes its time, and asks for what is locked elsewhere. The log's own locks are the real ones: were one
/// held here, this would never end.
fn told<const HOOK: usize>(error: &Error) {
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_LAUNCH_FAILED));
    thread::yield_now();
    let _ = recent_release_failures();
    TOLD.with(|told| told[HOOK].set(told[HOOK].get() + 1));
    thread::yield_now();
}

#[test]
fn every_failure_is_counted_and_told_to_one_hook() {
    let _alone = alone();
    let swaps = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&swaps);
    check(move || {
        let world = World::new();
        TOLD.with(|told| told.iter().for_each(|told| told.set(0)));
        set_release_hook(Some(told::<0>));
        let before = release_failures();
        world.simulator.fail_every(Symbol::cuMemFreeAsync, CUresult::CUDA_ERROR_LAUNCH_FAILED);
        let home = world.stream();
        thread::scope(|scope| {
            for value in 0..2 {
                let (world, home) = (&world, &home);
                scope.spawn(move || {
                    drop(world.filled(home, value));
                    drop(world.filled(home, value));
                });
            }
            scope.spawn(|| assert!(set_release_hook(Some(told::<1>)).is_some()));
        });
        assert_eq!(release_failures() - before, 4);
        assert!(recent_release_failures().len() <= 16);
        let [first, second] = TOLD.with(|told| [told[0].get(), told[1].get()]);
        assert_eq!(first + second, 4);
        swaps.fetch_add(usize::from(first > 0 && second > 0), Relaxed);
        set_release_hook(None);
        drop(home);
        world.end(Left { allocations: 4, ..Left::default() });
    });
    assert!(seen.load(Relaxed) > 0, "the hook was never changed in between");
}
