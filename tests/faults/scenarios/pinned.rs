//! Page-locked host memory: owned and registered.

use std::sync::Arc;

use cupool::{PinnedBuffer, Registered};
use cupool_sim::Symbol;

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios! {
        Base: pinned_memory_is_made_and_dropped, pinned_memory_from_a_slice, a_pinned_copy_up, a_pinned_copy_down,
            pinned_copies_both_ways, pinned_copies_on_two_streams, a_source_dropped_in_the_middle_of_its_copy,
            a_target_dropped_in_the_middle_of_its_copy, pinned_memory_made_while_another_is_still_in_use,
            pinned_memory_that_outlives_everything_else, what_is_kept_for_reuse_is_trimmed, a_vector_is_registered,
            a_borrowed_slice_is_registered;
    };
    all.extend(
        scenarios! { Base: memory_is_registered_twice; }
            .into_iter()
            .map(|scenario| scenario.refused(&[(Symbol::cuMemHostRegister, 1)])),
    );
    all
}

fn pinned_memory_is_made_and_dropped(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut host = world.get(PinnedBuffer::<u64>::new(&base.context, 100))?;
    world.equal(host.as_slice(), [0; 100]);
    world.get(host.as_mut_slice())?.fill(1);
    world.equal(host.as_slice(), [1; 100]);
    Some(())
}

fn pinned_memory_from_a_slice(world: &mut World<'_>, base: Base) -> Option<()> {
    let host = world.get(PinnedBuffer::from_slice(&base.context, &[1_u8, 2, 3]))?;
    world.equal(host.as_slice(), [1, 2, 3]);
    drop(world.get(PinnedBuffer::<u8>::new(&base.context, 0))?);
    Some(())
}

fn a_pinned_copy_up(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut host = world.get(PinnedBuffer::from_slice(&base.context, &[4_u32; 100]))?;
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    world.equal(host.as_slice(), [4; 100]);
    world.go_on(host.as_mut_slice().map(|elements| elements.fill(5)));
    world.equal(buffer.to_vec(), [4; 100]);
    Some(())
}

fn a_pinned_copy_down(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut host = world.get(PinnedBuffer::<u32>::new(&base.context, 100))?;
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(6));
    world.go_on(buffer.as_slice().copy_to_pinned(&mut host));
    world.go_on(buffer.fill(7));
    world.equal(host.as_slice(), [6; 100]);
    Some(())
}

fn pinned_copies_both_ways(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut host = world.get(PinnedBuffer::from_slice(&base.context, &[1_u32; 100]))?;
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    world.go_on(buffer.slice_mut(..50).and_then(|mut half| half.fill(2)));
    world.go_on(buffer.as_slice().copy_to_pinned(&mut host));
    world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    world.equal(host.as_slice(), [[2; 50], [1; 50]].concat());
    world.equal(buffer.to_vec(), [[2; 50], [1; 50]].concat());
    Some(())
}

fn pinned_copies_on_two_streams(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut host = world.get(PinnedBuffer::<u32>::new(&base.context, 100))?;
    let mut one = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    let mut two = world.get(base.pool.alloc::<u32, _>(100, &*base.second))?;
    world.go_on(one.fill(1));
    world.go_on(one.as_slice().copy_to_pinned(&mut host));
    world.go_on(two.as_mut_slice().copy_from_pinned(&host));
    world.go_on(one.fill(2));
    world.go_on(one.as_slice().copy_to_pinned(&mut host));
    world.equal(two.to_vec(), [1; 100]);
    world.equal(host.as_slice(), [2; 100]);
    Some(())
}

fn a_source_dropped_in_the_middle_of_its_copy(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    for value in 0..2 {
        world.go_on(buffer.fill(9));
        let host = world.get(PinnedBuffer::from_slice(&base.context, &[value; 100]))?;
        world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    }
    world.equal(buffer.to_vec(), [1; 100]);
    Some(())
}

fn a_target_dropped_in_the_middle_of_its_copy(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(9));
    let mut host = world.get(PinnedBuffer::<u32>::new(&base.context, 100))?;
    world.go_on(buffer.as_slice().copy_to_pinned(&mut host));
    drop(host);
    let fresh = world.get(PinnedBuffer::<u32>::new(&base.context, 100))?;
    world.go_on(base.first.synchronize());
    world.equal(fresh.as_slice(), [0; 100]);
    Some(())
}

fn pinned_memory_made_while_another_is_still_in_use(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    for _ in 0..3 {
        world.go_on(buffer.fill(1));
    }
    let host = world.get(PinnedBuffer::from_slice(&base.context, &[2_u32; 100]))?;
    world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    drop(host);
    drop(world.get(PinnedBuffer::<u32>::new(&base.context, 100))?);
    world.go_on(base.first.synchronize());
    drop(world.get(PinnedBuffer::<u32>::new(&base.context, 100))?);
    world.equal(buffer.to_vec(), [2; 100]);
    Some(())
}

fn pinned_memory_that_outlives_everything_else(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut host = world.get(PinnedBuffer::<u32>::new(&base.context, 100))?;
    let buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, Arc::clone(&base.first)))?;
    world.go_on(buffer.as_slice().copy_to_pinned(&mut host));
    drop(base);
    drop(buffer);
    world.equal(host.as_slice(), [0; 100]);
    Some(())
}

fn what_is_kept_for_reuse_is_trimmed(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u8, _>(1000, &*base.first))?;
    let host = world.get(PinnedBuffer::from_slice(&base.context, &[1_u8; 1000]))?;
    world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    drop(host);
    world.go_on(base.context.trim_pinned());
    world.equal(base.context.trim_pinned(), 0);
    world.equal(buffer.to_vec(), [1; 1000]);
    Some(())
}

fn a_vector_is_registered(world: &mut World<'_>, base: Base) -> Option<()> {
    let memory = world.get_or_drop(Registered::from_vec(&base.context, vec![1_u8; 1000]))?;
    world.equal(memory.into_vec(), vec![1; 1000]);
    drop(world.get_or_drop(Registered::from_vec(&base.context, vec![1_u8; 1000]))?);
    drop(world.get_or_drop(Registered::from_vec(&base.context, Vec::<u8>::new()))?);
    Some(())
}

fn a_borrowed_slice_is_registered(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut elements = [0_u32; 100];
    // SAFETY: a borrowed slice stays where it is, and the registration is not forgotten.
    let mut memory = world.get_or_drop(unsafe { Registered::new(&base.context, &mut elements[..]) })?;
    memory.fill(3);
    drop(memory);
    assert_eq!(elements, [3; 100]);
    Some(())
}

fn memory_is_registered_twice(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut elements = vec![0_u32; 100];
    let again = elements.as_mut_ptr();
    // SAFETY: a borrowed slice stays where it is, and the registration is not forgotten.
    let memory = world.get_or_drop(unsafe { Registered::new(&base.context, &mut elements[..]) })?;
    let len = memory.len();
    // SAFETY: the same memory, which nobody looks at meanwhile.
    let same = unsafe { core::slice::from_raw_parts_mut(again, len) };
    // SAFETY: as above; if it were registered, it would be unregistered at once.
    world.refused(unsafe { Registered::new(&base.context, same) }.map_err(|(error, _)| error));
    Some(())
}
