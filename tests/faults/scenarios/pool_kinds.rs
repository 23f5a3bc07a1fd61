//! Pools of other kinds than a device's own: made, found, asked what they are, primed.

use cupool::{MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolProperties};

use crate::faults::world::{Base, POOL_SIZE, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: a_host_pool, a_pool_on_the_nearest_node, a_managed_pool, a_pool_to_be_shared, a_shared_pool_on_a_node,
            default_pools_elsewhere, the_current_pool_elsewhere, what_a_pool_is, a_pool_is_primed;
    }
}

const fn properties() -> MemPoolProperties {
    MemPoolProperties::new().max_size(POOL_SIZE)
}

/// Makes such a pool and has the device use it.
fn make_and_use(world: &mut World<'_>, base: &Base, properties: MemPoolProperties) -> Option<()> {
    let pool = world.get(MemPool::with_properties(&base.device, &properties))?;
    let mut buffer = world.get(pool.alloc::<u32, _>(100, &*base.first))?;
    world.go_on(buffer.fill(5));
    world.equal(buffer.to_vec(), [5; 100]);
    Some(())
}

fn a_host_pool(world: &mut World<'_>, base: Base) -> Option<()> {
    make_and_use(world, &base, properties().location(MemPoolLocation::Host))
}

fn a_pool_on_the_nearest_node(world: &mut World<'_>, base: Base) -> Option<()> {
    make_and_use(world, &base, properties().location(MemPoolLocation::NearestHostNuma).release_threshold(0))
}

fn a_managed_pool(world: &mut World<'_>, base: Base) -> Option<()> {
    let anywhere = MemPoolProperties::new().kind(MemKind::Managed).location(MemPoolLocation::Unspecified);
    make_and_use(world, &base, anywhere)
}

fn a_pool_to_be_shared(world: &mut World<'_>, base: Base) -> Option<()> {
    make_and_use(world, &base, properties().handle_types(MemHandleTypes::POSIX_FD))
}

fn a_shared_pool_on_a_node(world: &mut World<'_>, base: Base) -> Option<()> {
    let node = properties().location(MemPoolLocation::HostNuma(0));
    make_and_use(world, &base, node.handle_types(MemHandleTypes::FABRIC))
}

fn default_pools_elsewhere(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = world.get(MemPool::default_at(&base.device, MemPoolLocation::Device, MemKind::Managed))?;
    drop(world.get(pool.alloc::<u8, _>(10, &*base.first))?);
    world.go_on(MemPool::default_at(&base.device, MemPoolLocation::NearestHostNuma, MemKind::Pinned));
    Some(())
}

fn the_current_pool_elsewhere(world: &mut World<'_>, base: Base) -> Option<()> {
    // SAFETY: it is the default one, which nobody destroys.
    let pool = world.get(unsafe { MemPool::current_at(&base.device, MemPoolLocation::Host, MemKind::Managed) })?;
    drop(world.get(pool.alloc::<u8, _>(10, &*base.first))?);
    Some(())
}

/// One that has passed through other hands, so that only the driver knows.
fn what_a_pool_is(world: &mut World<'_>, base: Base) -> Option<()> {
    let raw = base.pool.into_raw();
    // SAFETY: the pool was just given up.
    let pool = unsafe { MemPool::from_raw(base.device, raw) };
    world.equal(pool.location(), Some(MemPoolLocation::Device));
    world.equal(pool.kind(), Some(MemKind::Pinned));
    world.equal(pool.max_size(), POOL_SIZE as u64);
    world.equal(pool.handle_types(), MemHandleTypes::NONE);
    world.equal(pool.hw_decompress(), false);
    Some(())
}

fn a_pool_is_primed(world: &mut World<'_>, base: Base) -> Option<()> {
    world.get(base.pool.prime(1 << 20, &base.first))?;
    drop(world.get(base.pool.alloc::<u8, _>(1 << 20, &*base.first))?);
    Some(())
}
