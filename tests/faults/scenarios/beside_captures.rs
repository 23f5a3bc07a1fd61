//! In the relaxed capture mode throughout.

use cupool::RelaxedCaptureMode;

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: every_call_is_relaxed;
    }
}

fn every_call_is_relaxed(world: &mut World<'_>, base: Base) -> Option<()> {
    let _relaxed = RelaxedCaptureMode::new(base.device.driver());
    let mut buffer = world.get(base.pool.alloc::<u8, _>(100, &*base.first))?;
    world.go_on(buffer.fill(3));
    world.go_on(base.first.query());
    world.go_on(base.first.synchronize());
    world.equal(buffer.to_vec(), [3; 100]);
    world.go_on(buffer.free());
    drop(world.get(base.pool.alloc::<u8, _>(100, &*base.first))?);
    Some(())
}
