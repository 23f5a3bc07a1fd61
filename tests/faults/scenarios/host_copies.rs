//! Copies between the host's ordinary memory and the device.

use cupool::{Buffer, Registered, Stream};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: a_small_copy_up, a_small_copy_down, a_copy_up_and_down, a_large_copy_in_one_part, a_copy_up_in_parts,
            a_copy_down_in_parts, small_copies_while_all_blocks_are_in_use, copies_on_two_streams,
            a_copy_of_registered_memory, copies_of_parts, a_copy_that_the_driver_makes;
    }
}

fn a_small_copy_up(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.copy_from_host(&[1; 100]));
    Some(())
}

fn a_small_copy_down(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(3));
    let mut target = [0; 100];
    let copied = buffer.copy_to_host(&mut target);
    world.equal(copied.map(|()| target), [3; 100]);
    Some(())
}

fn a_copy_up_and_down(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    for round in 0..2 {
        let mut samples = [round; 100];
        world.go_on(buffer.copy_from_host(&samples));
        samples.fill(u32::MAX);
        world.equal(buffer.to_vec(), [round; 100]);
    }
    Some(())
}

/// More than a small block, and no more than a large one.
fn a_large_copy_in_one_part(world: &mut World<'_>, base: Base) -> Option<()> {
    let samples = [vec![1; 60_000], vec![2; 10_000]].concat();
    let buffer = world.get(base.pool.alloc_from_host(&samples, &*base.first))?;
    equal_down(world, &buffer, &samples);
    Some(())
}

/// A large block, and a bit of a second.
fn a_copy_up_in_parts(world: &mut World<'_>, base: Base) -> Option<()> {
    let samples = [vec![1_u8; LARGE], vec![2; 2]].concat();
    let buffer = world.get(base.pool.alloc_from_host(&samples, &*base.first))?;
    world.equal(buffer.slice(LARGE - 1..).and_then(|part| part.to_vec()), [1, 2, 2]);
    Some(())
}

/// Two large blocks under way, and a bit of a third.
fn a_copy_down_in_parts(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u8, _>(2 * LARGE + 10, &*base.first))?;
    world.go_on(buffer.fill(1));
    world.go_on(buffer.slice_mut(LARGE..).and_then(|mut part| part.fill(2)));
    equal_down(world, &buffer, &[vec![1; LARGE], vec![2; LARGE + 10]].concat());
    Some(())
}

/// Bytes in a large block.
const LARGE: usize = 512 << 10;

/// Of bytes, which the host compares quickly also where nothing is optimised.
fn equal_down(world: &mut World<'_>, buffer: &Buffer<u8, &Stream>, expected: &[u8]) {
    let mut target = vec![0; expected.len()];
    let copied = buffer.copy_to_host(&mut target);
    world.equal(copied.map(|()| target == expected), true);
}

fn small_copies_while_all_blocks_are_in_use(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc_zeroed::<u8, _>(10, &*base.first))?;
    for value in 0..10 {
        world.go_on(buffer.slice_mut(value..=value).and_then(|mut part| part.copy_from_host(&[value as u8])));
    }
    world.equal(buffer.to_vec(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    Some(())
}

fn copies_on_two_streams(world: &mut World<'_>, base: Base) -> Option<()> {
    let one = world.get(base.pool.alloc_from_host(&[1_u8; 100], &*base.first))?;
    let mut other = world.get(base.pool.alloc_from_host(&[2_u8; 100], &*base.second))?;
    world.go_on(other.copy_from(one.as_slice()));
    world.equal(one.to_vec(), [1; 100]);
    world.equal(other.to_vec(), [1; 100]);
    Some(())
}

fn a_copy_of_registered_memory(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut memory = world.get_or_drop(Registered::from_vec(&base.context, vec![4_u8; 1000]))?;
    let buffer = world.get(base.pool.alloc_from_host(&memory, &*base.first))?;
    memory.fill(5);
    let copied = buffer.copy_to_host(&mut memory);
    world.go_on(copied);
    world.equal(memory.into_vec(), vec![4; 1000]);
    Some(())
}

fn copies_of_parts(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc_zeroed::<u16, _>(100, &*base.first))?;
    let mut part = world.get(buffer.slice_mut(10..20))?;
    world.go_on(part.copy_from_host(&[6; 10]));
    world.refused(part.copy_from_host(&[6; 11]));
    let part = world.get(buffer.slice(15..25))?;
    let values = world.get(part.to_vec())?;
    if world.errors.len() == 1 {
        assert_eq!(values, [6, 6, 6, 6, 6, 0, 0, 0, 0, 0]);
    }
    Some(())
}

/// So large that it is staged only where the driver refuses it.
fn a_copy_that_the_driver_makes(world: &mut World<'_>, base: Base) -> Option<()> {
    let samples = [vec![1_u8; 4 << 20], vec![2; 2]].concat();
    let buffer = world.get(base.pool.alloc_from_host(&samples, &*base.first))?;
    equal_down(world, &buffer, &samples);
    Some(())
}
