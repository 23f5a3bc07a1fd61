//! The shelves of blocks through which copies pass.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use cupool::Stream;
use cupool_sim::{CUresult, Symbol};
use shuttle::thread;

use crate::world::{LEN, Left, Queries, World, alone, check, check_some, choose};

/// Copies to the device and back, on threads that share the context's blocks and some of them a stream.
fn copy_on_three(world: &World, streams: [&Arc<Stream>; 3], rounds: u32) {
    thread::scope(|scope| {
        for (thread, stream) in streams.into_iter().enumerate() {
            scope.spawn(move || {
                let mut buffer = world.filled(stream, 0);
                for round in 0..rounds {
                    let value = thread as u32 * 100 + round;
                    buffer.copy_from_host(&[value; LEN]).unwrap();
                    if round % 2 == 1 {
                        assert_eq!(buffer.to_vec().unwrap(), [value; LEN]);
                    }
                }
                assert_eq!(buffer.to_vec().unwrap(), [thread as u32 * 100 + rounds - 1; LEN]);
            });
        }
    });
}

#[test]
fn threads_never_share_a_block() {
    check(|| {
        let world = World::new();
        world.answer_queries(Queries::SometimesLate);
        let (own, shared) = (world.stream(), world.stream());
        copy_on_three(&world, [&own, &shared, &shared], 3);
        drop((own, shared));
        world.end(Left::default());
    });
}

#[test]
fn where_no_block_is_done_a_copy_waits_for_one_of_its_own_stream() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    check(move || {
        let world = World::new();
        world.answer_queries(Queries::AlwaysLate);
        let streams = [world.stream(), world.stream(), world.stream()];
        copy_on_three(&world, streams.each_ref(), 6);
        let made = world.simulator.live().host_allocations;
        most.fetch_max(made, Relaxed);
        drop(streams);
        world.end(Left::default());
    });
    // Three threads take thirty times.
    assert!(seen.load(Relaxed) < 30, "no copy ever waited");
}

#[test]
fn large_copies_through_several_blocks() {
    const LARGE: usize = (1 << 20) / 4 + 1;
    check_some(20, || {
        let world = World::new();
        world.answer_queries(Queries::SometimesLate);
        thread::scope(|scope| {
            for value in [1, 2] {
                let world = &world;
                scope.spawn(move || {
                    let stream = world.stream();
                    let mut buffer = world.pool.alloc::<u32, _>(LARGE, stream).unwrap();
                    buffer.copy_from_host(&vec![value; LARGE]).unwrap();
                    assert!(buffer.to_vec().unwrap().iter().all(|found| *found == value));
                });
            }
        });
        world.end(Left::default());
    });
}

#[test]
fn a_block_that_is_lost_is_lost_alone() {
    let _alone = alone();
    check(|| {
        let world = World::new();
        world.answer_queries(Queries::SometimesLate);
        let (failing, nth) = (choose(2) == 0, choose(3));
        let code = if failing {
            // The mark of a copy to the device fails, and every wait in its place.
            world.simulator.fail_every(Symbol::cuStreamSynchronize, CUresult::CUDA_ERROR_LAUNCH_FAILED);
            world.simulator.fail_every(Symbol::cuCtxSynchronize, CUresult::CUDA_ERROR_LAUNCH_FAILED);
            world.simulator.fail(Symbol::cuEventRecord, choose(6), CUresult::CUDA_ERROR_LAUNCH_FAILED);
            CUresult::CUDA_ERROR_LAUNCH_FAILED
        } else {
            // What a block's event answers once its context was reset.
            world.simulator.fail(Symbol::cuEventQuery, nth, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        };
        let (own, shared) = (world.stream(), world.stream());
        let failures: usize = thread::scope(|scope| {
            let threads = [(1, &own), (2, &shared), (3, &shared)].map(|(value, stream)| {
                let world = &world;
                scope.spawn(move || {
                    let mut buffer = world.filled(stream, 0);
                    let mut failures = 0;
                    for round in 0..3 {
                        let (value, mut found) = (value * 10 + round, [0; LEN]);
                        let copied = buffer.copy_from_host(&[value; LEN]);
                        let back = copied.and_then(|()| buffer.copy_to_host(&mut found));
                        match back {
                            Ok(()) => assert_eq!(found, [value; LEN]),
                            Err(error) => {
                                assert_eq!(error.code(), Some(code));
                                failures += 1;
                            }
                        }
                    }
                    failures
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        drop((own, shared));
        let lost = if failing {
            assert_eq!(failures, 1);
            1
        } else {
            assert_eq!(failures, 0);
            usize::from(world.simulator.count(Symbol::cuEventQuery) > nth)
        };
        world.end(Left { events: lost, host_allocations: lost, ..Left::default() });
    });
}
