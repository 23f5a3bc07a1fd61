//! Default streams: order with them, and loans to them.

use core::mem::forget;

use cupool::{DefaultStream, DefaultStreamKind, Event, Legacy, LegacyStream, PerThread};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios! {
        Base: loans_to_the_legacy_stream, loans_to_the_per_thread_stream, order_with_a_default_stream,
            a_stream_checked_against_its_context;
    };
    for scenario in
        scenarios! { Base: a_forgotten_loan_to_a_default_stream, a_forgotten_shared_loan_to_a_default_stream; }
    {
        all.push(scenario.forgets(1));
    }
    all
}

fn loans<K: DefaultStreamKind>(world: &mut World<'_>, base: &Base) -> Option<()> {
    let default = world.get(DefaultStream::<K>::new(&base.context))?;
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(1));
    let loan = world.get(buffer.on_default(&default))?;
    drop(loan);
    world.equal(buffer.to_vec(), [1; 100]);
    drop(world.get(buffer.read_on_default(&default))?);
    world.go_on(buffer.fill(3));
    world.equal(buffer.to_vec(), [3; 100]);
    Some(())
}

fn loans_to_the_legacy_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    loans::<Legacy>(world, &base)
}

fn loans_to_the_per_thread_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    loans::<PerThread>(world, &base)
}

fn order_with_a_default_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    let default = world.get(LegacyStream::new(&base.context))?;
    let event = world.get(Event::new(&base.context))?;
    world.go_on(default.wait_for(&base.first));
    world.go_on(base.second.wait_for_default(&default));
    world.go_on(default.record(&event));
    world.go_on(default.wait(&event));
    world.go_on(default.synchronize());
    world.go_on(default.query());
    Some(())
}

fn a_stream_checked_against_its_context(world: &mut World<'_>, base: Base) -> Option<()> {
    world.go_on(base.first.ensure_of_context());
    Some(())
}

fn a_forgotten_loan_to_a_default_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    let default = world.get(LegacyStream::new(&base.context))?;
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    forget(world.get(buffer.on_default(&default))?);
    world.refused(buffer.fill(1));
    Some(())
}

fn a_forgotten_shared_loan_to_a_default_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    let default = world.get(LegacyStream::new(&base.context))?;
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    forget(world.get(buffer.read_on_default(&default))?);
    world.equal(buffer.to_vec(), [0; 100]);
    world.refused(buffer.fill(1));
    Some(())
}
