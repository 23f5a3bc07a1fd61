//! Events, with a clock and without.

use cupool::{Event, EventRef, TimedEvent};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: an_event_is_recorded_and_waited_for, an_event_is_never_recorded, an_event_is_recorded_again,
            the_time_between_two_events, the_time_since_no_record, an_event_makes_the_round_trip, an_event_is_borrowed;
    }
}

fn an_event_is_recorded_and_waited_for(world: &mut World<'_>, base: Base) -> Option<()> {
    let event = world.get(Event::new(&base.context))?;
    world.go_on(event.record(&base.first));
    world.go_on(base.second.wait(&event));
    world.go_on(event.query());
    world.go_on(event.synchronize());
    world.go_on(event.query());
    Some(())
}

fn an_event_is_never_recorded(world: &mut World<'_>, base: Base) -> Option<()> {
    let event = world.get(Event::new(&base.context))?;
    world.go_on(base.second.wait(&event));
    world.go_on(event.query());
    world.go_on(event.synchronize());
    Some(())
}

fn an_event_is_recorded_again(world: &mut World<'_>, base: Base) -> Option<()> {
    let event = world.get(Event::new(&base.context))?;
    let mut buffer = world.get(base.pool.alloc::<u8, _>(100, &*base.first))?;
    for round in 0..2 {
        world.go_on(buffer.fill(round));
        world.go_on(event.record(&base.first));
        world.go_on(base.second.wait(&event));
    }
    drop(event);
    world.equal(buffer.to_vec(), [1; 100]);
    Some(())
}

fn the_time_between_two_events(world: &mut World<'_>, base: Base) -> Option<()> {
    let start = world.get(TimedEvent::new(&base.context))?;
    let end = world.get(TimedEvent::new(&base.context))?;
    world.go_on(start.record(&base.first));
    world.go_on(end.record(&base.first));
    world.go_on(end.synchronize());
    // Without the marks there is no time to ask for.
    if world.errors.is_empty() {
        world.equal(end.elapsed_ms_since(&start).map(|ms| ms >= 0.0), true);
    }
    Some(())
}

fn the_time_since_no_record(world: &mut World<'_>, base: Base) -> Option<()> {
    let [start, end] = [world.get(TimedEvent::new(&base.context))?, world.get(TimedEvent::new(&base.context))?];
    world.refused(end.elapsed_ms_since(&start));
    Some(())
}

fn an_event_makes_the_round_trip(world: &mut World<'_>, base: Base) -> Option<()> {
    let (raw, context) = world.get(Event::new(&base.context))?.into_raw_parts();
    // SAFETY: these are the parts of the event above.
    let event = unsafe { Event::from_raw_parts(raw, context) };
    world.go_on(event.record(&base.second));
    Some(())
}

fn an_event_is_borrowed(world: &mut World<'_>, base: Base) -> Option<()> {
    let event = world.get(Event::new(&base.context))?;
    // SAFETY: the event is of that context, and outlives what borrows it.
    let borrowed = unsafe { EventRef::borrow_raw(&base.context, event.as_raw()) };
    world.go_on(borrowed.record(&base.first));
    world.go_on(base.second.wait(&borrowed));
    world.go_on(borrowed.synchronize());
    Some(())
}
