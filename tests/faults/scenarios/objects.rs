//! Drivers, devices, contexts and streams: asked, made, borrowed, taken apart.

use cupool::{Context, ContextRef, Device, Driver, Stream, StreamOptions, StreamRef};

use crate::faults::world::{Base, Scenario, World, limited, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Driver: the_driver_is_asked, a_device_is_asked, a_context_is_retained, a_context_is_shared_and_asked,
            two_devices_each_have_everything, a_context_makes_the_round_trip;
        Base: a_context_is_borrowed, the_callers_own_context_is_current, a_stream_is_made, streams_are_made_with_options,
            a_stream_is_asked, streams_wait_for_each_other, a_stream_makes_the_round_trip, a_stream_is_borrowed;
    }
}

fn the_driver_is_asked(world: &mut World<'_>, driver: Driver) -> Option<()> {
    world.go_on(driver.version());
    world.go_on(driver.init());
    world.equal(driver.device_count(), 2);
    for device in world.get(driver.devices())? {
        world.go_on(device);
    }
    Some(())
}

fn a_device_is_asked(world: &mut World<'_>, driver: Driver) -> Option<()> {
    let device = world.get(driver.device(0))?;
    let peer = world.get(driver.device(1))?;
    world.go_on(device.name());
    world.go_on(device.pci_bus_id());
    world.go_on(device.uuid());
    world.go_on(device.total_memory());
    world.go_on(device.compute_capability());
    world.go_on(device.warp_size());
    world.equal(device.memory_pools_supported(), true);
    world.equal(device.can_access_peer(peer), true);
    world.go_on(device.ensure_memory_pools_supported());
    Some(())
}

fn a_context_is_retained(world: &mut World<'_>, driver: Driver) -> Option<()> {
    let device = world.get(driver.device(0))?;
    let first = world.get(device.primary_context())?;
    world.equal(device.is_primary_context_active(), true);
    let current = world.get(first.with_current(|| {
        // SAFETY: the context outlives the borrow.
        Ok(unsafe { ContextRef::current(driver) }?.map(|current| current.as_raw()))
    }))?;
    assert_eq!(current, Some(first.as_raw()));
    let second = world.get(device.primary_context())?;
    assert_eq!(first.as_raw(), second.as_raw());
    drop(first);
    world.go_on(second.synchronize());
    Some(())
}

fn a_context_is_shared_and_asked(world: &mut World<'_>, driver: Driver) -> Option<()> {
    let context = world.get(driver.device(0).and_then(Device::primary_context))?;
    let again = world.get(context.try_clone())?;
    drop(context);
    world.go_on(again.memory_info());
    world.go_on(again.stream_priority_range());
    world.go_on(again.with_current(|| again.synchronize()));
    Some(())
}

fn two_devices_each_have_everything(world: &mut World<'_>, driver: Driver) -> Option<()> {
    let devices = [world.get(driver.device(0))?, world.get(driver.device(1))?];
    let mut kept = Vec::new();
    for device in devices {
        let context = world.get(device.primary_context())?;
        let stream = std::sync::Arc::new(world.get(Stream::new(&context))?);
        let pool = world.get(limited(device))?;
        let buffer = world.get(pool.alloc_from_host(&[3_u8; 10], stream))?;
        world.equal(buffer.to_vec(), [3; 10]);
        kept.push((context, buffer, pool));
    }
    // Across contexts streams can wait for each other.
    let (one, other) = (kept[0].1.home(), kept[1].1.home());
    world.go_on(one.wait_for(other));
    Some(())
}

fn a_context_makes_the_round_trip(world: &mut World<'_>, driver: Driver) -> Option<()> {
    let device = world.get(driver.device(0))?;
    let context = world.get(device.primary_context())?;
    let raw = world.get(context.into_raw())?;
    // SAFETY: the retain was just given up.
    let context = unsafe { Context::from_raw(device, raw) };
    world.go_on(context.synchronize());
    Some(())
}

fn a_context_is_borrowed(world: &mut World<'_>, base: Base) -> Option<()> {
    // SAFETY: the context outlives what borrows it.
    let borrowed = unsafe { ContextRef::borrow_raw(base.device, base.context.as_raw()) };
    world.go_on(borrowed.synchronize());
    let owned = world.get(borrowed.try_clone())?;
    let stream = world.get(Stream::new(&borrowed))?;
    drop(owned);
    let buffer = world.get(base.pool.alloc_from_host(&[1_u32, 2], &stream))?;
    world.equal(buffer.to_vec(), [1, 2]);
    Some(())
}

fn the_callers_own_context_is_current(world: &mut World<'_>, base: Base) -> Option<()> {
    let made = base.context.with_current(|| {
        let stream = Stream::new(&base.context)?;
        stream.synchronize()?;
        Ok(stream)
    });
    drop(world.get(made)?);
    Some(())
}

fn a_stream_is_made(world: &mut World<'_>, base: Base) -> Option<()> {
    drop(world.get(Stream::new(&base.context))?);
    let stream = world.get(Stream::new(&base.context))?;
    world.go_on(stream.synchronize());
    Some(())
}

fn streams_are_made_with_options(world: &mut World<'_>, base: Base) -> Option<()> {
    for options in [StreamOptions { blocking: true, priority: -2 }, StreamOptions { blocking: false, priority: 0 }] {
        let stream = world.get(Stream::with_options(&base.context, options))?;
        world.equal(stream.options(), options);
    }
    Some(())
}

fn a_stream_is_asked(world: &mut World<'_>, base: Base) -> Option<()> {
    world.go_on(base.first.id());
    world.go_on(base.first.query());
    world.equal(base.first.is_capturing(), false);
    world.go_on(base.first.synchronize());
    Some(())
}

fn streams_wait_for_each_other(world: &mut World<'_>, base: Base) -> Option<()> {
    world.go_on(base.first.wait_for(&base.second));
    world.go_on(base.second.wait_for(&base.first));
    world.go_on(base.second.wait_for(&base.first));
    world.go_on(base.second.synchronize());
    Some(())
}

fn a_stream_makes_the_round_trip(world: &mut World<'_>, base: Base) -> Option<()> {
    let stream = world.get(Stream::new(&base.context))?;
    world.go_on(base.first.wait_for(&stream));
    let (raw, context) = stream.into_raw_parts();
    // SAFETY: these are the parts of the stream above.
    let stream = unsafe { Stream::from_raw_parts(raw, context) };
    world.go_on(stream.wait_for(&base.first));
    Some(())
}

fn a_stream_is_borrowed(world: &mut World<'_>, base: Base) -> Option<()> {
    // SAFETY: the stream is of that context, and outlives what borrows it.
    let borrowed = unsafe { StreamRef::borrow_raw(&base.context, base.first.as_raw()) };
    let source = world.get(base.pool.alloc_from_host(&[5_u32; 50], &borrowed))?;
    let mut target = world.get(base.pool.alloc::<u32, _>(50, &*base.second))?;
    world.go_on(target.copy_from(source.as_slice()));
    world.equal(target.to_vec(), [5; 50]);
    let mut at_home = world.get(base.pool.alloc::<u32, _>(50, &*base.first))?;
    world.go_on(at_home.copy_from(source.as_slice()));
    Some(())
}
