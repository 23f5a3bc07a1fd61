//! Managed memory, and what is asked about addresses.

use core::mem::forget;
use std::sync::Arc;

use cupool::{ManagedBuffer, MemLocation, PinnedBuffer, Registered, Stream};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios! {
        Base: the_host_looks_into_managed_memory, managed_memory_is_kept_and_used_again, managed_memory_is_trimmed,
            managed_memory_on_two_streams, managed_memory_that_outlives_everything_else, managed_memory_is_placed, a_buffer_that_is_not_managed, addresses_are_asked_about, a_copy_between_devices;
    };
    all.extend(
        scenarios! { Base: a_forgotten_loan_of_managed_memory; }.into_iter().map(|scenario| scenario.forgets(1)),
    );
    all
}

type Managed<'a> = ManagedBuffer<u32, &'a Stream>;

fn the_host_looks_into_managed_memory(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer: Managed<'_> = world.get(ManagedBuffer::alloc(100, &*base.first))?;
    world.go_on(buffer.as_mut_slice().fill(1));
    world.equal(buffer.as_host_slice(), [1; 100]);
    world.go_on(buffer.as_host_mut_slice().map(|elements| elements.fill(2)));
    world.equal(buffer.to_vec(), [2; 100]);
    world.go_on(buffer.free());
    Some(())
}

fn managed_memory_is_kept_and_used_again(world: &mut World<'_>, base: Base) -> Option<()> {
    for value in 0..3 {
        let mut buffer: Managed<'_> = world.get(ManagedBuffer::alloc(100, &*base.first))?;
        world.go_on(buffer.as_mut_slice().fill(value));
        world.go_on(buffer.as_host_slice().map(drop));
    }
    Some(())
}

fn managed_memory_is_trimmed(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer: Managed<'_> = world.get(ManagedBuffer::alloc(100, &*base.first))?;
    world.go_on(buffer.as_mut_slice().fill(1));
    drop(buffer);
    world.go_on(base.context.trim_managed());
    world.equal(base.context.trim_managed(), 0);
    Some(())
}

fn managed_memory_on_two_streams(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer: Managed<'_> = world.get(ManagedBuffer::alloc(100, &*base.first))?;
    let mut loan = world.get(buffer.on(&base.second))?;
    world.go_on(loan.as_mut_slice().fill(3));
    drop(loan);
    world.equal(buffer.as_host_slice(), [3; 100]);
    let mut buffer = world.get_or_drop(buffer.move_to(&*base.second))?;
    world.go_on(buffer.as_host_mut_slice().map(|elements| elements.fill(4)));
    Some(())
}

fn managed_memory_that_outlives_everything_else(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer: ManagedBuffer<u32> = world.get(ManagedBuffer::alloc(100, Arc::clone(&base.first)))?;
    drop(base);
    world.go_on(buffer.as_mut_slice().fill(1));
    Some(())
}

fn managed_memory_is_placed(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer: Managed<'_> = world.get(ManagedBuffer::alloc(100, &*base.first))?;
    let device = MemLocation::Device(base.device);
    world.go_on(buffer.prefetch(.., device));
    world.equal(buffer.last_prefetch_location(..), Some(device));
    world.go_on(buffer.set_preferred_location(.., Some(device)));
    world.equal(buffer.preferred_location(..), Some(device));
    world.go_on(buffer.set_read_mostly(.., true));
    world.equal(buffer.is_read_mostly(..), true);
    world.go_on(buffer.set_accessed_by(.., MemLocation::Host, true));
    world.equal(buffer.accessed_by(..), vec![MemLocation::Host]);
    Some(())
}

fn a_buffer_that_is_not_managed(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.refused(buffer.into_managed().map_err(|(error, _)| error));
    Some(())
}

fn addresses_are_asked_about(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    let start = world.get(buffer.as_slice().pointer_info())?.map(|info| info.start);
    assert_eq!(start, Some(buffer.as_raw()));
    let pinned = world.get(PinnedBuffer::<u8>::new(&base.context, 100))?;
    world.go_on(pinned.device_address());
    let registered = world.get_or_drop(Registered::from_vec(&base.context, vec![1_u8; 100]))?;
    world.go_on(registered.device_address());
    Some(())
}

fn a_copy_between_devices(world: &mut World<'_>, base: Base) -> Option<()> {
    let device = world.get(base.device.driver().device(1))?;
    let far = world.get(device.primary_context().and_then(|context| Stream::new(&context)))?;
    let pool = world.get(crate::faults::world::limited(device))?;
    let mut source = world.get(pool.alloc::<u32, _>(100, &far))?;
    let mut target = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(source.fill(1));
    world.go_on(target.as_mut_slice().copy_from_peer(source.as_slice()));
    world.go_on(source.fill(2));
    world.equal(target.to_vec(), [1; 100]);
    Some(())
}

fn a_forgotten_loan_of_managed_memory(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer: Managed<'_> = world.get(ManagedBuffer::alloc(100, &*base.first))?;
    forget(world.get(buffer.read_on(&base.second))?);
    world.refused(buffer.as_host_mut_slice().map(drop));
    Some(())
}
