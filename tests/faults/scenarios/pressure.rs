//! Pools under pressure: limits, trims, access, and the process's own pools.

use cupool::{Access, Buffer, MemPool};
use cupool_sim::Symbol;

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios! {
        Base: a_trim_after_a_stream, a_threshold_that_falls_short, graph_memory, access_is_granted,
            access_is_taken_back, access_is_taken_back_on_the_callers_word, a_pool_that_granted_access_ends_in_use,
            the_default_threshold_is_raised, thresholds_that_end_in_another_order, a_pool_is_current,
            current_pools_that_end_in_another_order, a_guard_that_is_forgotten, from_the_current_pool;
    };
    // What it says of the pool is different if that cannot be asked.
    all.extend(scenarios! { Base: a_soft_limit; }.into_iter().map(Scenario::rescues));
    all
}

fn a_trim_after_a_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    drop(world.get(base.pool.alloc_zeroed::<u8, _>(1 << 20, &*base.first))?);
    // Its free may have failed, which is told elsewhere.
    world.go_on(base.pool.trim_after(&base.first, 0));
    Some(())
}

fn a_threshold_that_falls_short(world: &mut World<'_>, mut base: Base) -> Option<()> {
    drop(world.get(base.pool.alloc::<u8, _>(1 << 20, &*base.first))?);
    world.go_on(base.pool.set_release_threshold(0));
    world.equal(base.pool.threshold_shortfall(), 32 << 20);
    Some(())
}

fn a_soft_limit(world: &mut World<'_>, base: Base) -> Option<()> {
    base.pool.set_soft_limit(Some(1000));
    let mut buffer = world.get(base.pool.alloc::<u8, _>(900, &*base.first))?;
    world.go_on(buffer.fill(1));
    let refused = base.pool.alloc::<u8, _>(101, &*base.second);
    world.refused(refused);
    world.equal(buffer.to_vec(), [1; 900]);
    base.pool.set_soft_limit(None);
    drop(world.get(base.pool.alloc::<u8, _>(2000, &*base.first))?);
    Some(())
}

fn graph_memory(world: &mut World<'_>, base: Base) -> Option<()> {
    world.equal(base.device.graph_memory_usage().map(|usage| usage.used), 0);
    world.go_on(base.device.reset_graph_memory_peaks());
    world.equal(base.device.trim_graph_memory(), 0);
    Some(())
}

fn access_is_granted(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let peer = world.get(base.device.driver().device(1))?;
    world.equal(base.pool.access_of(&peer), Access::None);
    world.get(base.pool.grant(&peer, Access::ReadWrite))?;
    world.equal(base.pool.access_of(&peer), Access::ReadWrite);
    Some(())
}

fn access_is_taken_back(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let peer = world.get(base.device.driver().device(1))?;
    world.get(base.pool.grant(&peer, Access::Read))?;
    world.go_on(base.pool.revoke(&peer));
    world.equal(base.pool.access_of(&peer), Access::None);
    Some(())
}

fn access_is_taken_back_on_the_callers_word(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let peer = world.get(base.device.driver().device(1))?;
    world.get(base.pool.grant(&peer, Access::Read))?;
    let _buffer = world.get(base.pool.alloc::<u8, _>(10, &*base.first))?;
    // SAFETY: the peer has no work.
    world.go_on(unsafe { base.pool.revoke_in_use(&peer) });
    world.equal(base.pool.access_of(&peer), Access::None);
    Some(())
}

/// The next pool with its handle begins with what was left taken back.
fn a_pool_that_granted_access_ends_in_use(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let peer = world.get(base.device.driver().device(1))?;
    world.get(base.pool.grant(&peer, Access::ReadWrite))?;
    let mut buffer = world.get(base.pool.alloc::<u8, _>(100, &*base.first))?;
    drop(base.pool);
    world.go_on(buffer.fill(3));
    world.equal(buffer.to_vec(), [3; 100]);
    drop(buffer);
    world.go_on(base.first.synchronize());
    let next = world.get(crate::faults::world::limited(base.device))?;
    world.equal(next.access_of(&peer), Access::None);
    Some(())
}

fn the_default_threshold_is_raised(world: &mut World<'_>, base: Base) -> Option<()> {
    let guard = world.get(MemPool::raise_default_threshold(&base.device, 1000))?;
    let pool = world.get(MemPool::default_of(&base.device))?;
    world.equal(pool.release_threshold(), 1000);
    drop(guard);
    world.go_on(pool.release_threshold());
    Some(())
}

fn thresholds_that_end_in_another_order(world: &mut World<'_>, base: Base) -> Option<()> {
    let first = world.get(MemPool::raise_default_threshold(&base.device, 2000))?;
    let second = world.get(MemPool::raise_default_threshold(&base.device, 1000))?;
    drop(first);
    drop(second);
    Some(())
}

fn a_pool_is_current(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let current = world.get(base.pool.make_current())?;
    let mut buffer = world.get(Buffer::<u8, _>::from_current_pool(100, &*base.first))?;
    world.go_on(buffer.fill(4));
    world.equal(buffer.to_vec(), [4; 100]);
    world.equal(current.usage().map(|usage| usage.used), 100);
    Some(())
}

fn current_pools_that_end_in_another_order(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let mut other = world.get(crate::faults::world::limited(base.device))?;
    let first = world.get(base.pool.make_current())?;
    let second = world.get(other.make_current())?;
    drop(first);
    drop(base.pool);
    drop(second);
    // Whichever is current is one that lives.
    drop(world.get(Buffer::<u8, _>::from_current_pool(100, &*base.first))?);
    Some(())
}

fn a_guard_that_is_forgotten(world: &mut World<'_>, mut base: Base) -> Option<()> {
    core::mem::forget(world.get(base.pool.make_current())?);
    drop(base.pool);
    drop(world.get(Buffer::<u8, _>::from_current_pool(100, &*base.first))?);
    Some(())
}

fn from_the_current_pool(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(Buffer::<u8, _>::from_current_pool(1 << 20, base.first))?;
    world.equal(Ok(buffer.len()), 1 << 20_usize);
    world.go_on(buffer.free());
    let calls = world.sim.count(Symbol::cuMemAllocAsync);
    assert_eq!(calls, 1);
    Some(())
}
