//! Pools: made, borrowed, asked, told, trimmed, exhausted.

use cupool::{MemPool, MemPoolProperties, MemPoolRef};
use cupool_sim::{CUresult, Symbol};

use crate::faults::world::{Base, POOL_SIZE, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    const FIRST: (Symbol, usize) = (Symbol::cuMemAllocFromPoolAsync, 0);
    const SECOND: (Symbol, usize) = (Symbol::cuMemAllocFromPoolAsync, 1);
    let mut all = scenarios! {
        Base: a_pool_is_made, a_pool_that_keeps_nothing, the_default_pool, the_current_pool, a_pool_makes_the_round_trip,
            a_pool_is_borrowed, a_pool_is_asked, thresholds_and_peaks, reuse_policies, a_trim_with_nothing_to_do,
            a_trim_with_frees_to_come, a_pool_dropped_before_its_buffers;
    };
    let [helps, in_vain, unwanted]: [Scenario; 3] =
        scenarios! { Base: a_rescue_that_helps, a_rescue_in_vain, no_rescue_wanted; }.try_into().ok().unwrap();
    all.push(helps.rescues().refused(&[SECOND]));
    all.push(in_vain.rescues().refused(&[FIRST, SECOND]));
    all.push(unwanted.rescues().refused(&[FIRST]));
    all
}

fn a_pool_is_made(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = world.get(MemPool::new(&base.device))?;
    let buffer = world.get(pool.alloc_zeroed::<u8, _>(10, &*base.first))?;
    world.equal(buffer.to_vec(), [0; 10]);
    Some(())
}

fn a_pool_that_keeps_nothing(world: &mut World<'_>, base: Base) -> Option<()> {
    let properties = MemPoolProperties { release_threshold: 0, max_size: POOL_SIZE, ..MemPoolProperties::default() };
    let pool = world.get(MemPool::with_properties(&base.device, &properties))?;
    drop(world.get(pool.alloc::<u8, _>(10, &*base.first))?);
    world.go_on(base.first.synchronize());
    Some(())
}

fn the_default_pool(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = world.get(MemPool::default_of(&base.device))?;
    drop(world.get(pool.alloc::<u8, _>(10, &*base.first))?);
    Some(())
}

fn the_current_pool(world: &mut World<'_>, base: Base) -> Option<()> {
    // SAFETY: it is the default one, which nobody destroys.
    let pool = world.get(unsafe { MemPool::current_of(&base.device) })?;
    drop(world.get(pool.alloc::<u8, _>(10, &*base.first))?);
    Some(())
}

fn a_pool_makes_the_round_trip(world: &mut World<'_>, base: Base) -> Option<()> {
    let raw = base.pool.into_raw();
    // SAFETY: the pool was just given up.
    let pool = unsafe { MemPool::from_raw(base.device, raw) };
    drop(world.get(pool.alloc::<u8, _>(10, &*base.first))?);
    Some(())
}

fn a_pool_is_borrowed(world: &mut World<'_>, base: Base) -> Option<()> {
    // SAFETY: the pool outlives what borrows it.
    let pool = unsafe { MemPoolRef::borrow_raw(base.device, base.pool.as_raw()) };
    let buffer = world.get(pool.alloc_from_host(&[7_u8; 10], &*base.first))?;
    world.equal(buffer.to_vec(), [7; 10]);
    world.go_on(pool.usage());
    Some(())
}

fn a_pool_is_asked(world: &mut World<'_>, base: Base) -> Option<()> {
    let _buffer = world.get(base.pool.alloc::<u8, _>(1000, &*base.first))?;
    world.equal(base.pool.usage().map(|usage| usage.used), 1000);
    Some(())
}

fn thresholds_and_peaks(world: &mut World<'_>, mut base: Base) -> Option<()> {
    world.go_on(base.pool.set_release_threshold(1 << 20));
    world.equal(base.pool.release_threshold(), 1 << 20);
    world.go_on(base.pool.reset_peaks());
    Some(())
}

fn reuse_policies(world: &mut World<'_>, mut base: Base) -> Option<()> {
    let pool = &mut base.pool;
    world.go_on(pool.set_reuse_follow_event_dependencies(false));
    world.equal(pool.reuse_follow_event_dependencies(), false);
    world.go_on(pool.set_reuse_allow_opportunistic(false));
    world.equal(pool.reuse_allow_opportunistic(), false);
    world.go_on(pool.set_reuse_allow_internal_dependencies(false));
    world.equal(pool.reuse_allow_internal_dependencies(), false);
    Some(())
}

fn a_trim_with_nothing_to_do(world: &mut World<'_>, base: Base) -> Option<()> {
    world.equal(base.pool.trim_to(0).map(|trimmed| trimmed.released), 0);
    Some(())
}

fn a_trim_with_frees_to_come(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u8, _>(1 << 20, &*base.first))?;
    world.go_on(buffer.fill(1));
    drop(buffer);
    world.go_on(base.pool.trim_to(0));
    world.go_on(base.first.synchronize());
    // Its free may have failed, which is told elsewhere.
    world.go_on(base.pool.trim_to(0));
    Some(())
}

fn a_pool_dropped_before_its_buffers(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    drop(base.pool);
    world.go_on(buffer.fill(3));
    world.equal(buffer.to_vec(), [3; 100]);
    Some(())
}

/// The other stream's memory is still to be freed when this one runs out.
fn a_rescue_that_helps(world: &mut World<'_>, base: Base) -> Option<()> {
    world.sim.fail(Symbol::cuMemAllocFromPoolAsync, 1, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    drop(world.get(base.pool.alloc::<u8, _>(48 << 20, &*base.first))?);
    let mut buffer = world.get(base.pool.alloc::<u8, _>(100, &*base.first))?;
    world.go_on(buffer.fill(1));
    world.equal(buffer.to_vec(), [1; 100]);
    Some(())
}

fn a_rescue_in_vain(world: &mut World<'_>, base: Base) -> Option<()> {
    world.refused(base.pool.alloc::<u8, _>(2 * POOL_SIZE, &*base.first));
    drop(world.get(base.pool.alloc::<u8, _>(100, &*base.first))?);
    Some(())
}

fn no_rescue_wanted(world: &mut World<'_>, base: Base) -> Option<()> {
    base.pool.set_rescue(false);
    world.refused(base.pool.alloc::<u8, _>(2 * POOL_SIZE, &*base.first));
    drop(world.get(base.pool.alloc::<u8, _>(100, &*base.first))?);
    Some(())
}
