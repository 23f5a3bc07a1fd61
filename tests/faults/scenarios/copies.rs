//! Copies from device to device.

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: a_copy_at_home, halves_of_a_buffer, a_copy_from_another_home, copies_both_ways, a_ring_of_copies,
            a_source_freed_right_after_the_copy, a_target_freed_right_after_the_copy, host_functions;
    }
}

fn a_copy_at_home(world: &mut World<'_>, base: Base) -> Option<()> {
    let source = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let mut target = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(target.copy_from(source.as_slice()));
    world.equal(target.to_vec(), [0; 100]);
    Some(())
}

fn halves_of_a_buffer(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u8, _>(100, &*base.first))?;
    world.go_on(buffer.fill(1));
    let (mut head, mut tail) = world.get(buffer.as_mut_slice().split_at(50))?;
    world.go_on(head.fill(2));
    world.go_on(tail.copy_from(head.as_slice()));
    world.equal(buffer.to_vec(), [2; 100]);
    Some(())
}

fn a_copy_from_another_home(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut source = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(source.fill(5));
    let mut target = world.get(base.pool.alloc::<u32, _>(100, &*base.second))?;
    world.go_on(target.copy_from(source.as_slice()));
    world.go_on(source.fill(6));
    world.equal(target.to_vec(), [5; 100]);
    Some(())
}

fn copies_both_ways(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut one = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let mut other = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.second))?;
    for round in 0..2 {
        world.go_on(one.fill(round));
        world.go_on(other.copy_from(one.as_slice()));
        world.go_on(one.copy_from(other.as_slice()));
    }
    world.equal(one.to_vec(), [1; 100]);
    Some(())
}

fn a_ring_of_copies(world: &mut World<'_>, base: Base) -> Option<()> {
    let third = world.get(cupool::Stream::new(&base.context))?;
    let mut ring = Vec::new();
    for (value, stream) in [&*base.first, &*base.second, &third].into_iter().enumerate() {
        let mut buffer = world.get(base.pool.alloc::<u8, _>(100, stream))?;
        world.go_on(buffer.fill(value as u8));
        ring.push(buffer);
    }
    let mut first = ring.remove(0);
    world.go_on(ring[0].copy_from(first.as_slice()));
    let (left, right) = ring.split_at_mut(1);
    world.go_on(right[0].copy_from(left[0].as_slice()));
    world.go_on(first.copy_from(right[0].as_slice()));
    world.equal(first.to_vec(), [0; 100]);
    Some(())
}

fn a_source_freed_right_after_the_copy(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut target = world.get(base.pool.alloc::<u32, _>(100, &*base.second))?;
    for value in [7, 8] {
        let mut source = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
        world.go_on(source.fill(value));
        world.go_on(target.copy_from(source.as_slice()));
        drop(source);
        drop(world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?);
    }
    world.equal(target.to_vec(), [8; 100]);
    Some(())
}

fn a_target_freed_right_after_the_copy(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut source = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let mut target = world.get(base.pool.alloc::<u32, _>(100, &*base.second))?;
    world.go_on(target.copy_from(source.as_slice()));
    drop(target);
    world.go_on(source.fill(1));
    world.equal(source.to_vec(), [1; 100]);
    Some(())
}

fn host_functions(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(base.first.call_host(|| {}));
    world.go_on(buffer.fill(2));
    world.go_on(base.first.call_host(|| {}));
    world.equal(buffer.to_vec(), [2; 100]);
    Some(())
}
