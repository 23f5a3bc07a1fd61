//! Buffers: allocated in every way, filled in every width, freed.

use std::{rc::Rc, sync::Arc};

use cupool::{Buffer, Stream};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: a_buffer_is_dropped, a_buffer_is_freed_by_hand, a_buffer_shares_its_stream, a_buffer_owns_its_stream,
            a_buffer_is_zeroed, a_buffer_is_made_from_the_hosts_elements, no_elements, buffers_are_freed_in_any_order,
            fills_of_one_byte, fills_of_two_bytes, fills_of_four_bytes, zeros_of_any_width, fills_of_parts,
            a_buffer_is_cast, a_buffer_makes_the_round_trip, a_buffer_is_used_again_and_again;
    }
}

fn a_buffer_is_dropped(world: &mut World<'_>, base: Base) -> Option<()> {
    drop(world.get(base.pool.alloc::<u8, _>(100, &*base.first))?);
    Some(())
}

fn a_buffer_is_freed_by_hand(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc::<u64, _>(100, &*base.first))?;
    world.go_on(buffer.free());
    Some(())
}

fn a_buffer_shares_its_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut counted = world.get(base.pool.alloc::<u8, _>(100, Rc::new(Arc::clone(&base.first))))?;
    let mut buffer: Buffer<u8> = world.get(base.pool.alloc(100, base.first))?;
    world.go_on(buffer.fill(4));
    world.go_on(counted.fill(5));
    world.equal(buffer.to_vec(), [4; 100]);
    Some(())
}

fn a_buffer_owns_its_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    let stream = world.get(Stream::new(&base.context))?;
    let mut buffer = world.get(base.pool.alloc::<u16, _>(100, stream))?;
    world.go_on(buffer.fill(3));
    let stream = world.get(Stream::new(&base.context))?;
    let other = world.get(base.pool.alloc::<u16, _>(100, stream))?;
    world.go_on(buffer.copy_from(other.as_slice()));
    world.go_on(other.free());
    Some(())
}

fn a_buffer_is_zeroed(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc_zeroed::<f64, _>(100, &*base.first))?;
    world.equal(buffer.to_vec(), [0.0; 100]);
    Some(())
}

fn a_buffer_is_made_from_the_hosts_elements(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc_from_host(&[1_i32, -2, 3], &*base.first))?;
    world.equal(buffer.to_vec(), [1, -2, 3]);
    Some(())
}

fn no_elements(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut none = world.get(base.pool.alloc_zeroed::<u32, _>(0, &*base.first))?;
    world.go_on(none.fill(1));
    world.go_on(none.copy_from_host(&[]));
    world.equal(none.to_vec(), [0_u32; 0]);
    world.go_on(none.free());
    Some(())
}

fn buffers_are_freed_in_any_order(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffers = Vec::new();
    for len in [1, 1000, 10, 100_000] {
        buffers.push(world.get(base.pool.alloc_zeroed::<u8, _>(len, &*base.first))?);
    }
    drop(buffers.swap_remove(1));
    drop(buffers.swap_remove(0));
    world.go_on(buffers.swap_remove(1).free());
    Some(())
}

fn fills_of_one_byte(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<i8, _>(100, &*base.first))?;
    world.go_on(buffer.fill(-1));
    world.equal(buffer.to_vec(), [-1; 100]);
    Some(())
}

fn fills_of_two_bytes(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u16, _>(100, &*base.first))?;
    world.go_on(buffer.fill(0x0102));
    world.equal(buffer.to_vec(), [0x0102; 100]);
    Some(())
}

fn fills_of_four_bytes(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<f32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(1.5));
    world.equal(buffer.to_vec(), [1.5; 100]);
    Some(())
}

fn zeros_of_any_width(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut wide = world.get(base.pool.alloc::<[u8; 24], _>(10, &*base.first))?;
    world.go_on(wide.fill_zero());
    world.equal(wide.to_vec(), [[0; 24]; 10]);
    Some(())
}

fn fills_of_parts(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let (mut head, mut tail) = world.get(buffer.as_mut_slice().split_at(40))?;
    world.go_on(head.fill(1));
    world.go_on(tail.fill(2));
    let part = world.get(buffer.slice_mut(30..50))?;
    let mut bytes = world.get(part.cast::<u8>())?;
    world.go_on(bytes.fill(0));
    world.equal(buffer.to_vec(), [[1; 30].as_slice(), &[0; 20], &[2; 50]].concat());
    Some(())
}

fn a_buffer_is_cast(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(3, &*base.first))?;
    world.go_on(buffer.fill(1));
    let Err((error, buffer)) = buffer.cast::<u64>() else { panic!("12 bytes are no whole `u64`s") };
    world.refused::<()>(Err(error));
    let bytes = world.get_or_drop(buffer.cast::<u8>())?;
    world.go_on(bytes.free());
    Some(())
}

fn a_buffer_makes_the_round_trip(world: &mut World<'_>, base: Base) -> Option<()> {
    let (address, len, home) = world.get(base.pool.alloc::<u16, _>(100, &*base.first))?.into_raw_parts();
    // SAFETY: these are the parts of the buffer above.
    let mut buffer = unsafe { Buffer::<u16, _>::from_raw_parts(address, len, home) };
    world.go_on(buffer.fill(9));
    Some(())
}

fn a_buffer_is_used_again_and_again(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut expected = 0;
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(10, &*base.first))?;
    for round in 1..4 {
        let mut next = world.get(base.pool.alloc::<u32, _>(10, &*base.first))?;
        world.go_on(next.copy_from(buffer.as_slice()));
        world.equal(next.to_vec(), [expected; 10]);
        world.go_on(next.fill(round));
        (buffer, expected) = (next, round);
    }
    Some(())
}
