//! The sweep finds what it is to find: scenarios that do wrong, each in another way.

use core::mem::forget;
use std::panic::resume_unwind;

use cupool::{Buffer, Error, Event};
use cupool_sim::CUresult;

use super::{
    sweep,
    world::{Base, Body, Scenario, World},
};

/// Sweeps a scenario that does wrong, and expects to hear of it in these words.
#[track_caller]
fn expect_trouble(body: fn(&mut World<'_>, Base) -> Option<()>, words: &str) {
    sweep::count_reports();
    let swept = sweep::sweep(&Scenario::new("wrong", Body::Base(body)), false);
    assert!(swept.troubles.iter().any(|trouble| trouble.contains(words)), "{:#?}", swept.troubles);
}

#[test]
fn memory_that_is_never_freed_is_found() {
    expect_trouble(
        |world, base| {
            forget(world.get(base.pool.alloc::<u8, _>(10, &*base.first))?);
            Some(())
        },
        "nothing fails: left {allocations: 1}",
    );
}

#[test]
fn an_object_that_stays_only_if_something_fails_is_found() {
    expect_trouble(
        |world, base| {
            let (raw, context) = world.get(Event::new(&base.context))?.into_raw_parts();
            world.get(base.first.synchronize())?;
            // SAFETY: these are the parts of the event above.
            drop(unsafe { Event::from_raw_parts(raw, context) });
            Some(())
        },
        "cuStreamSynchronize: 1, Once: left {events: 1}",
    );
}

#[test]
fn memory_that_is_freed_twice_is_found() {
    expect_trouble(
        |world, base| {
            let (address, len, stream) = world.get(base.pool.alloc::<u8, _>(10, &*base.first))?.into_raw_parts();
            // SAFETY: these are the parts of the buffer above; for the second time they are not, which is the point.
            let twice = unsafe {
                [Buffer::<u8, _>::from_raw_parts(address, len, stream), Buffer::from_raw_parts(address, len, stream)]
            };
            drop(twice);
            Some(())
        },
        "FreedTwice",
    );
}

#[test]
fn memory_that_is_freed_without_order_is_found() {
    expect_trouble(
        |world, base| {
            let (address, len, _) = world.get(base.pool.alloc::<u8, _>(10, &*base.first))?.into_raw_parts();
            // SAFETY: the other stream must come after this one first, and does not, which is the point.
            drop(unsafe { Buffer::<u8, _>::from_raw_parts(address, len, &*base.second) });
            Some(())
        },
        "UnorderedFree",
    );
}

#[test]
fn a_panic_is_found() {
    expect_trouble(
        |world, base| {
            if base.first.synchronize().is_err() {
                resume_unwind(Box::new("on purpose"));
            }
            world.go_on(base.second.synchronize());
            Some(())
        },
        "it panicked: on purpose",
    );
}

#[test]
fn a_failure_that_is_kept_quiet_is_found() {
    expect_trouble(
        |_, base| {
            let _ = base.first.synchronize();
            Some(())
        },
        "cuStreamSynchronize: 1, Once: nobody was told",
    );
}

#[test]
fn an_error_that_is_made_up_is_found() {
    expect_trouble(
        |world, base| {
            world.go_on(base.first.synchronize().map_err(|_| Error::StreamCapturing));
            Some(())
        },
        "an error of another kind: StreamCapturing",
    );
}

#[test]
fn contents_that_are_wrong_after_a_success_are_found() {
    expect_trouble(
        |world, base| {
            let mut buffer = world.get(base.pool.alloc_zeroed::<u8, _>(2, &*base.first))?;
            // What does not happen is answered with success.
            let filled = buffer.fill(1);
            let values = world.get(buffer.to_vec())?;
            assert!(filled.is_err() || values == [1; 2]);
            if filled.is_err() {
                world.equal(Ok(values), [1; 2]);
            }
            Some(())
        },
        "it panicked",
    );
}

#[test]
fn a_driver_that_is_broken_afterwards_is_found() {
    expect_trouble(
        |world, base| {
            if base.first.synchronize().is_err() {
                world.sim.inject_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
            }
            world.go_on(base.second.synchronize());
            Some(())
        },
        "afterwards",
    );
}
