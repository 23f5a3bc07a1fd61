//! Objects that end in odd orders, while work runs, and while the caller unwinds.

use core::any::Any;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use cupool::{Event, PinnedBuffer, Stream};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: everything_ends_in_the_order_of_its_making, everything_ends_in_the_opposite_order,
            the_context_and_the_streams_end_first, streams_end_with_work_to_do, a_panic_with_everything_alive,
            a_panic_in_the_middle_of_loans, a_panic_with_a_context_current;
    }
}

/// One of each object, with work behind it.
fn one_of_each(world: &mut World<'_>, base: Base) -> Option<Vec<Box<dyn Any>>> {
    let event = world.get(Event::new(&base.context))?;
    let mut one = world.get(base.pool.alloc_zeroed::<u8, _>(100, Arc::clone(&base.first)))?;
    let other = world.get(base.pool.alloc_from_host(&[1_u8; 100], Arc::clone(&base.second)))?;
    world.go_on(one.copy_from(other.as_slice()));
    let mut host = world.get(PinnedBuffer::<u8>::new(&base.context, 100))?;
    world.go_on(one.as_slice().copy_to_pinned(&mut host));
    world.go_on(event.record(&base.first));
    Some(vec![
        Box::new(base.context),
        Box::new(base.first),
        Box::new(base.second),
        Box::new(base.pool),
        Box::new(event),
        Box::new(one),
        Box::new(other),
        Box::new(host),
    ])
}

fn everything_ends_in_the_order_of_its_making(world: &mut World<'_>, base: Base) -> Option<()> {
    one_of_each(world, base)?.into_iter().for_each(drop);
    Some(())
}

fn everything_ends_in_the_opposite_order(world: &mut World<'_>, base: Base) -> Option<()> {
    one_of_each(world, base)?.into_iter().rev().for_each(drop);
    Some(())
}

fn the_context_and_the_streams_end_first(world: &mut World<'_>, base: Base) -> Option<()> {
    let Base { context, pool, first, second, .. } = base;
    let event = world.get(Event::new(&context))?;
    drop(context);
    let buffer = world.get(pool.alloc_from_host(&[1_u8; 100], first))?;
    drop(second);
    world.go_on(event.record(buffer.home()));
    drop(pool);
    drop(buffer);
    world.go_on(event.synchronize());
    Some(())
}

fn streams_end_with_work_to_do(world: &mut World<'_>, base: Base) -> Option<()> {
    let stream = world.get(Stream::new(&base.context))?;
    let mut target = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let mut source = world.get(base.pool.alloc::<u32, _>(100, &stream))?;
    world.go_on(source.fill(5));
    world.go_on(target.copy_from(source.as_slice()));
    drop(source);
    drop(stream);
    world.equal(target.to_vec(), [5; 100]);
    Some(())
}

/// Unwinds from `work`, and says whether that was what ended it.
fn unwound<T>(work: impl FnOnce() -> Option<T>) -> bool {
    struct OnPurpose;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _alive = work();
        resume_unwind(Box::new(OnPurpose))
    }));
    match ended {
        Ok(never) => never,
        Err(payload) if payload.is::<OnPurpose>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

fn a_panic_with_everything_alive(world: &mut World<'_>, base: Base) -> Option<()> {
    assert!(unwound(|| one_of_each(world, base)));
    Some(())
}

fn a_panic_in_the_middle_of_loans(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut lent = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let read = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    assert!(unwound(|| {
        let mut loan = world.get(lent.on(&base.second))?;
        let shared = world.get(read.read_on(&base.second))?;
        world.go_on(loan.as_mut_slice().copy_from(shared.as_slice()));
        world.go_on(loan.as_mut_slice().fill(4));
        Some((loan, shared))
    }));
    world.equal(lent.to_vec(), [4; 100]);
    Some(())
}

fn a_panic_with_a_context_current(world: &mut World<'_>, base: Base) -> Option<()> {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        base.context.with_current(|| -> cupool::Result<()> {
            let _stream = Stream::new(&base.context)?;
            resume_unwind(Box::new(()))
        })
    }));
    // A context that could not be made current comes back before that.
    if let Ok(refused) = ended {
        world.refused(refused);
    }
    Some(())
}
