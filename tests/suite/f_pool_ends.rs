//! Pools that are dropped while they hold memory: the driver's end comes when they hold none, and no earlier.

use std::sync::Arc;

use cupool::{Buffer, Error, MemPool, Stream};
use cupool_sim::{CUresult, Symbol};

use crate::{fixture::Fixture, gate::Gate};

#[test]
fn f18_a_pool_that_holds_nothing_ends_at_once() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    drop(pool.alloc_zeroed::<u8, _>(100, &stream).unwrap());
    stream.synchronize().unwrap();
    drop(pool);
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolDestroy), 1);
}

#[test]
fn f18_a_pool_is_kept_by_its_buffers_and_by_frees_that_are_to_come() {
    let fixture = Fixture::alone();
    let (driver, pool, stream) = (fixture.driver(), fixture.pool(), fixture.shared_stream());
    let buffer = pool.alloc_from_host(&[7_u8; 100], Arc::clone(&stream)).unwrap();
    drop(pool);
    assert_eq!(MemPool::destroy_dropped(driver), Ok(1));
    assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
    let gate = Gate::on(&fixture, &stream);
    drop(buffer);
    assert_eq!(MemPool::destroy_dropped(driver), Ok(1));
    gate.open();
    stream.synchronize().unwrap();
    assert_eq!(MemPool::destroy_dropped(driver), Ok(0));
}

#[test]
fn f18_the_next_pool_that_is_made_or_dropped_ends_those_that_wait() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    let destroyed = || fixture.sim().count(Symbol::cuMemPoolDestroy);
    let kept = fixture.pool();
    for made in [true, false] {
        let before = destroyed();
        drop(fixture.pool().alloc_zeroed::<u8, _>(100, &stream).unwrap());
        assert_eq!(destroyed(), before, "its free is to come");
        stream.synchronize().unwrap();
        if made {
            let _next = fixture.pool();
            assert_eq!(destroyed(), before + 1);
        } else {
            let next = fixture.pool();
            drop(next.alloc_zeroed::<u8, _>(100, &stream).unwrap());
            drop(next);
            assert_eq!(destroyed(), before + 1);
            stream.synchronize().unwrap();
        }
    }
    drop(kept);
}

#[test]
fn f18_memory_of_a_dropped_pool_goes_back_with_the_next_synchronisation() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let buffer = pool.alloc_zeroed::<u8, _>(40 << 20, &stream).unwrap();
    drop(pool);
    stream.synchronize().unwrap();
    let before = context.memory_info().unwrap().free;
    drop(buffer);
    stream.synchronize().unwrap();
    let after = context.memory_info().unwrap().free;
    assert!(after >= before + (40 << 20), "{before} {after}");
}

#[test]
fn f18_a_pool_that_does_not_say_what_it_holds_waits_until_it_does() {
    let fixture = Fixture::simulated();
    let (stream, destroyed) = (fixture.stream(), || fixture.sim().count(Symbol::cuMemPoolDestroy));
    let ask = || MemPool::destroy_dropped(fixture.driver());
    for code in [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_NOT_SUPPORTED, CUresult::CUDA_ERROR_UNKNOWN] {
        let (pool, before) = (fixture.pool(), destroyed());
        drop(pool.alloc::<u8, _>(100, &stream).unwrap());
        fixture.sim().fail_every(Symbol::cuMemPoolGetAttribute, code);
        drop(pool);
        stream.synchronize().unwrap();
        assert_eq!((ask(), destroyed()), (Ok(1), before), "{code:?}");
        fixture.sim().clear_faults();
        assert_eq!((ask(), destroyed()), (Ok(0), before + 1), "{code:?}");
    }
}

#[test]
fn f18_a_pool_that_is_not_trimmed_ends_when_it_holds_nothing() {
    let fixture = Fixture::simulated();
    let (stream, destroyed) = (fixture.stream(), || fixture.sim().count(Symbol::cuMemPoolDestroy));
    let ask = || MemPool::destroy_dropped(fixture.driver());
    fixture.sim().fail_every(Symbol::cuMemPoolTrimTo, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let pool = fixture.pool();
    drop(pool.alloc::<u8, _>(100, &stream).unwrap());
    drop(pool);
    assert_eq!((ask(), destroyed()), (Ok(1), 0), "its free is to come");
    // Dropped, it keeps nothing that is free.
    stream.synchronize().unwrap();
    assert_eq!((ask(), destroyed()), (Ok(0), 1));
}

/// So that making and dropping pools costs the same however many wait.
#[test]
fn f18_few_of_those_that_wait_are_asked_when_another_pool_is_made_or_dropped() {
    let fixture = Fixture::simulated();
    let (stream, asked) = (fixture.stream(), || fixture.sim().count(Symbol::cuMemPoolTrimTo));
    let kept: Vec<_> = (0..20).map(|_| fixture.pool().alloc::<u8, _>(1, &stream).unwrap()).collect();
    let before = asked();
    let next = fixture.pool();
    assert_eq!(asked() - before, 4);
    drop(next);
    // And itself.
    assert_eq!(asked() - before, 4 + 4 + 1);
    drop(kept);
    stream.synchronize().unwrap();
    assert_eq!(MemPool::destroy_dropped(fixture.driver()), Ok(0));
}

#[test]
fn f18_objects_of_one_driver_end_none_of_anothers() {
    let (one, other) = (Fixture::simulated(), Fixture::simulated());
    let stream = one.stream();
    drop(one.pool().alloc::<u8, _>(100, &stream).unwrap());
    stream.synchronize().unwrap();
    assert_eq!(MemPool::destroy_dropped(other.driver()), Ok(0));
    drop(other.pool());
    assert_eq!(one.sim().live().pools, 1);
    assert_eq!((MemPool::destroy_dropped(one.driver()), one.sim().live().pools), (Ok(0), 0));
}

#[test]
fn f18_a_simulator_that_ended_with_pools_leaves_none_to_the_next() {
    // More than there are places for simulators, so that every place is taken again.
    for _ in 0..40 {
        let fixture = Fixture::unchecked();
        let _context = fixture.context();
        assert_eq!(MemPool::destroy_dropped(fixture.driver()), Ok(0));
        drop(fixture.pool().alloc_zeroed::<u8, _>(100, fixture.shared_stream()).unwrap());
        assert_eq!(fixture.sim().live().pools, 1);
    }
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// What a random program holds.
struct Lives<'a> {
    fixture: &'a Fixture,
    pools: Vec<MemPool>,
    streams: Vec<Arc<Stream>>,
    gates: Vec<Gate>,
    buffers: Vec<Buffer<u8>>,
}

impl Lives<'_> {
    fn step(&mut self, numbers: &mut Numbers) {
        let (pools, streams, buffers) = (self.pools.len(), self.streams.len(), self.buffers.len());
        match numbers.below(12) {
            0 if pools < 5 => {
                let pool = self.fixture.pool();
                // It would wait for a stream that is held up.
                pool.set_rescue(false);
                self.pools.push(pool);
            }
            1 if streams < 6 => self.streams.push(self.fixture.shared_stream()),
            2..=4 if pools > 0 && streams > 0 && buffers < 40 => {
                let (pool, stream) = (&self.pools[numbers.below(pools)], &self.streams[numbers.below(streams)]);
                match pool.alloc_zeroed(1 << (8 + numbers.below(15)), Arc::clone(stream)) {
                    Ok(buffer) => self.buffers.push(buffer),
                    Err(Error::OutOfMemory(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            5..=7 if buffers > 0 => drop(self.buffers.swap_remove(numbers.below(buffers))),
            8 if streams > 0 && self.gates.len() < 3 => {
                self.gates.push(Gate::on(self.fixture, &self.streams[numbers.below(streams)]));
            }
            9 if !self.gates.is_empty() => drop(self.gates.swap_remove(numbers.below(self.gates.len()))),
            10 if streams > 0 => drop(self.streams.swap_remove(numbers.below(streams))),
            11 if pools > 0 => drop(self.pools.swap_remove(numbers.below(pools))),
            _ => {}
        }
    }
}

/// Where pools that hold memory are destroyed, a third of such programs ends in a crash or a hang of driver 580.159.
#[test]
fn f18_pools_streams_and_buffers_may_end_in_any_order_with_frees_to_come() {
    for seed in 0..24 {
        let fixture = Fixture::alone();
        let mut numbers = Numbers(seed);
        let mut lives = Lives { fixture: &fixture, pools: vec![], streams: vec![], gates: vec![], buffers: vec![] };
        for _ in 0..1500 {
            lives.step(&mut numbers);
        }
        drop(lives);
        fixture.context().synchronize().unwrap();
        assert_eq!(MemPool::destroy_dropped(fixture.driver()), Ok(0), "seed {seed}");
    }
}
