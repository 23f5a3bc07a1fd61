//! Objects used and dropped on several threads.

use std::{sync::Arc, thread};

use cupool::{PinnedBuffer, Result, Stream};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: buffers_dropped_on_another_thread, threads_that_share_a_stream, threads_that_copy_from_each_other,
            threads_that_copy_to_the_host, pinned_memory_on_another_thread;
    }
    .into_iter()
    .map(Scenario::threads)
    .collect()
}

fn on_threads(world: &mut World<'_>, work: impl Fn(u32) -> Result<()> + Sync) {
    let results = thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..3).map(|number| scope.spawn(move || work(number))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for result in results {
        world.go_on(result);
    }
}

fn buffers_dropped_on_another_thread(world: &mut World<'_>, base: Base) -> Option<()> {
    let one = world.get(base.pool.alloc_zeroed::<u8, _>(100, Arc::clone(&base.first)))?;
    let other = world.get(base.pool.alloc_zeroed::<u8, _>(100, base.second))?;
    thread::spawn(move || drop((other, one))).join().unwrap();
    Some(())
}

fn threads_that_share_a_stream(world: &mut World<'_>, base: Base) -> Option<()> {
    on_threads(world, |number| {
        let mut buffer = base.pool.alloc::<u32, _>(10, &*base.first)?;
        buffer.fill(number)?;
        assert_eq!(buffer.to_vec()?, [number; 10]);
        buffer.free()
    });
    Some(())
}

fn threads_that_copy_from_each_other(world: &mut World<'_>, base: Base) -> Option<()> {
    let source = world.get(base.pool.alloc_zeroed::<u32, _>(10, &*base.first))?;
    on_threads(world, |_| {
        let stream = Stream::new(&base.context)?;
        let mut copy = base.pool.alloc::<u32, _>(10, &stream)?;
        copy.copy_from(source.as_slice())
    });
    Some(())
}

fn threads_that_copy_to_the_host(world: &mut World<'_>, base: Base) -> Option<()> {
    let source = world.get(base.pool.alloc_from_host(&[5_u32; 10], &*base.first))?;
    let whole = world.errors.is_empty();
    on_threads(world, |_| {
        let values = source.to_vec()?;
        assert!(!whole || values == [5; 10], "{values:?}");
        Ok(())
    });
    Some(())
}

fn pinned_memory_on_another_thread(world: &mut World<'_>, base: Base) -> Option<()> {
    let host = world.get(PinnedBuffer::from_slice(&base.context, &[5_u32; 10]))?;
    let mut buffer = world.get(base.pool.alloc::<u32, _>(10, Arc::clone(&base.first)))?;
    world.go_on(buffer.as_mut_slice().copy_from_pinned(&host));
    let moved = thread::spawn(move || {
        let values = host.as_slice().map(<[u32]>::to_vec);
        drop(host);
        values
    });
    let values = moved.join().unwrap();
    world.equal(values, [5; 10]);
    Some(())
}
