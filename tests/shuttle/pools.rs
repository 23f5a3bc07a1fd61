//! The rescue of an allocation that does not fit, while others turn it on and off; a soft limit that threads share; and
//! the ends of pools that hold memory.

use cupool::{Error, MemPool, MemPoolProperties, Rescue};
use shuttle::thread;

use crate::world::{LEN, Left, World, check};

#[test]
fn allocations_that_do_not_fit_are_rescued_or_refused() {
    const HALF: usize = (16 << 20) / 4;
    check(|| {
        let world = World::with_pool_of(32 << 20);
        thread::scope(|scope| {
            for value in [1, 2] {
                let world = &world;
                scope.spawn(move || {
                    let stream = world.stream();
                    for _ in 0..3 {
                        match world.pool.alloc::<u32, _>(HALF, &stream) {
                            Ok(mut buffer) => {
                                let mut part = buffer.slice_mut(..LEN).unwrap();
                                part.fill(value).unwrap();
                                assert_eq!(part.as_slice().to_vec().unwrap(), [value; LEN]);
                            }
                            Err(Error::OutOfMemory(error)) => {
                                assert!(matches!(error.rescue, Rescue::Tried | Rescue::Off), "{error:?}");
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            scope.spawn(|| {
                world.pool.set_rescue(false);
                let buffer = world.pool.alloc::<u32, _>(HALF, world.stream());
                world.pool.set_rescue(true);
                drop(buffer);
            });
        });
        // Whatever went on, all of it is free once it is done, and one allocation takes all there is.
        world.context.synchronize().unwrap();
        let stream = world.stream();
        drop(world.pool.alloc::<u32, _>(2 * HALF, &stream).unwrap());
        drop(stream);
        world.end(Left::default());
    });
}

#[test]
fn threads_together_never_pass_a_soft_limit() {
    const LIMIT: u64 = 10 * LEN as u64 * 4;
    check(|| {
        let world = World::with_pool_of(32 << 20);
        world.pool.set_soft_limit(Some(LIMIT));
        thread::scope(|scope| {
            for parts in [4, 5, 7] {
                let world = &world;
                scope.spawn(move || {
                    let stream = world.stream();
                    for _ in 0..2 {
                        match world.pool.alloc::<u32, _>(parts * LEN, &stream) {
                            Ok(mut buffer) => buffer.fill(1).unwrap(),
                            Err(Error::OutOfMemory(error)) => assert_eq!(error.rescue, Rescue::SoftLimit, "{error:?}"),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert!(world.pool.usage().unwrap().used_high <= LIMIT);
        world.pool.set_soft_limit(None);
        world.context.synchronize().unwrap();
        world.end(Left::default());
    });
}

#[test]
fn pools_that_threads_drop_with_memory_in_use_are_destroyed_once_each() {
    check(|| {
        let world = World::new();
        let driver = world.context.device().driver();
        thread::scope(|scope| {
            for value in [1, 2] {
                let world = &world;
                scope.spawn(move || {
                    let stream = world.stream();
                    let pool = MemPool::with_properties(&world.context.device(), &MemPoolProperties::new()).unwrap();
                    let mut buffer = pool.alloc::<u32, _>(LEN, &stream).unwrap();
                    drop(pool);
                    buffer.fill(value).unwrap();
                    assert_eq!(buffer.to_vec().unwrap(), [value; LEN]);
                });
            }
            scope.spawn(|| {
                for _ in 0..3 {
                    assert!(MemPool::destroy_dropped(driver).unwrap() <= 2);
                }
            });
        });
        world.context.synchronize().unwrap();
        assert_eq!(MemPool::destroy_dropped(driver), Ok(0));
        assert_eq!(world.simulator.live().pools, 1, "the world's own");
        world.end(Left::default());
    });
}
