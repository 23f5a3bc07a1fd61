//! Pinned memory: the copies of it that are pending, and what is parked when it is dropped.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use cupool::{Error, MemPool, PinnedBuffer, Stream};
use cupool_sim::{CUresult, Symbol};
use shuttle::thread;

use crate::world::{LEN, Left, Queries, World, check, choose};

#[test]
fn copies_from_several_threads_see_what_the_host_sees() {
    check(|| {
        let world = World::new();
        let mut host = PinnedBuffer::from_slice(&world.context, &[1_u32; LEN]).unwrap();
        let streams = [world.stream(), world.stream()];
        let targets = thread::scope(|scope| {
            let threads = streams.each_ref().map(|stream| {
                let (world, host) = (&world, &host);
                scope.spawn(move || {
                    let mut targets = [world.filled(stream, 0), world.filled(stream, 0)];
                    for target in &mut targets {
                        target.copy_from_pinned(host).unwrap();
                        assert_eq!(host.as_slice().unwrap(), [1; LEN]);
                    }
                    targets
                })
            });
            assert_eq!(host.as_slice().unwrap(), [1; LEN]);
            threads.map(|thread| thread.join().unwrap())
        });
        // Waits for every copy: what they have read stays.
        host.as_mut_slice().unwrap().fill(2);
        for target in targets.as_flattened() {
            assert_eq!(target.to_vec().unwrap(), [1; LEN]);
        }
        drop((targets, host, streams));
        world.end(Left::default());
    });
}

#[test]
fn every_host_view_waits_for_a_copy_that_writes_it() {
    check(|| {
        let world = World::new();
        let mut host = PinnedBuffer::from_slice(&world.context, &[1_u32; LEN]).unwrap();
        let (home, other) = (world.stream(), world.stream());
        let source = world.filled(&home, 9);
        source.copy_to_pinned(&mut host).unwrap();
        let targets = thread::scope(|scope| {
            // The copies that read what is written come after it, and a view between them waits no less.
            let threads = [&home, &other].map(|stream| {
                let (world, host) = (&world, &host);
                scope.spawn(move || {
                    let mut target = world.filled(stream, 0);
                    target.copy_from_pinned(host).unwrap();
                    assert_eq!(host.as_slice().unwrap(), [9; LEN]);
                    target
                })
            });
            assert_eq!(host.as_slice().unwrap(), [9; LEN]);
            threads.map(|thread| thread.join().unwrap())
        });
        // No view has taken a copy that began meanwhile for done.
        host.as_mut_slice().unwrap().fill(8);
        for target in &targets {
            assert_eq!(target.to_vec().unwrap(), [9; LEN]);
        }
        drop((targets, source, host, home, other));
        world.end(Left::default());
    });
}

#[test]
fn a_copy_whose_end_cannot_be_marked_is_waited_for_and_holds_nobody_up() {
    let refusals = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&refusals);
    check(move || {
        let world = World::new();
        let mut host = PinnedBuffer::from_slice(&world.context, &[1_u32; LEN]).unwrap();
        world.simulator.fail(Symbol::cuEventRecord, choose(4), CUresult::CUDA_ERROR_LAUNCH_FAILED);
        let targets = thread::scope(|scope| {
            let threads = [0, 1, 2].map(|_| {
                let (world, host, refusals) = (&world, &host, &refusals);
                scope.spawn(move || {
                    let stream = world.stream();
                    let mut copied = Vec::new();
                    for _ in 0..2 {
                        let mut target = world.filled(&stream, 0);
                        match target.copy_from_pinned(host) {
                            Ok(()) => copied.push(target),
                            // Somebody else waits on the host just now.
                            Err(error) => {
                                assert_eq!(error, Error::OrderLost);
                                refusals.fetch_add(1, Relaxed);
                            }
                        }
                        match host.as_slice() {
                            Ok(elements) => assert_eq!(elements, [1; LEN]),
                            Err(error) => assert_eq!(error, Error::OrderLost),
                        }
                    }
                    copied
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        host.as_mut_slice().unwrap().fill(2);
        for target in targets.iter().flatten() {
            assert_eq!(target.to_vec().unwrap(), [1; LEN]);
        }
        drop((targets, host));
        world.end(Left::default());
    });
    assert!(seen.load(Relaxed) > 0, "no thread ever came while another waited");
}

#[test]
fn parked_memory_is_taken_once_and_freed_once() {
    check(|| {
        let world = World::new();
        world.answer_queries(Queries::SometimesLate);
        thread::scope(|scope| {
            for value in [1_u32, 2] {
                let world = &world;
                scope.spawn(move || {
                    let stream = world.stream();
                    let mut target = world.filled(&stream, 0);
                    for value in [value * 10, value * 10 + 1, value * 10 + 2] {
                        let host = PinnedBuffer::from_slice(&world.context, &[value; LEN]).unwrap();
                        target.copy_from_pinned(&host).unwrap();
                        // The copy goes on.
                        drop(host);
                        assert_eq!(target.to_vec().unwrap(), [value; LEN]);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..2 {
                    world.context.trim_pinned().unwrap();
                }
            });
        });
        world.end(Left::default());
    });
}

#[test]
fn the_last_owner_of_a_context_frees_what_others_parked() {
    check(|| {
        let world = World::new();
        let context = world.kept().device().primary_context().unwrap();
        let threads = [1_u32, 2, 3].map(|value| {
            let context = context.try_clone().unwrap();
            thread::spawn(move || {
                let host = PinnedBuffer::from_slice(&context, &[value; LEN]).unwrap();
                let stream = Stream::new(&context).unwrap();
                let pool = MemPool::new(&context.device()).unwrap();
                let mut target = pool.alloc::<u32, _>(LEN, &stream).unwrap();
                target.copy_from_pinned(&host).unwrap();
                drop((context, host));
                target.free().unwrap();
            })
        });
        drop(context);
        for thread in threads {
            thread.join().unwrap();
        }
        world.end(Left::default());
    });
}
