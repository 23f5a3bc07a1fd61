//! The event of a stream, which whoever first has to wait for the stream makes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use cupool_sim::{CUresult, Symbol};
use shuttle::thread;

use crate::world::{LEN, Left, World, check, choose};

#[test]
fn threads_that_first_wait_for_a_stream_agree_on_one_event() {
    let races = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&races);
    check(move || {
        let world = World::new();
        let stream = world.stream();
        let others = [world.stream(), world.stream(), world.stream()];
        let failing = choose(4) == 0;
        if failing {
            world.simulator.fail(Symbol::cuEventCreate, choose(2), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let failed = thread::scope(|scope| {
            let waits = others.each_ref().map(|other| scope.spawn(|| other.wait_for(&stream)));
            waits.into_iter().map(|wait| wait.join().unwrap()).filter(Result::is_err).count()
        });
        assert!(failed <= usize::from(failing));
        let (live, made) = world.events();
        assert_eq!(live, 1);
        races.fetch_add(usize::from(made > 1), Relaxed);
        // It is made once, and lasts as long as the stream.
        for other in &others {
            other.wait_for(&stream).unwrap();
        }
        assert_eq!(world.events(), (1, made));
        drop(stream);
        assert_eq!(world.events(), (0, made));
        drop(others);
        world.end(Left::default());
    });
    assert!(seen.load(Relaxed) > 0, "no two threads were ever at it at once");
}

#[test]
fn streams_that_wait_for_each_other_at_once_are_fenced_both_ways() {
    check(|| {
        let world = World::new();
        let streams = [world.stream(), world.stream()];
        thread::scope(|scope| {
            let [one, other] = &streams;
            for (stream, home, value) in [(one, other, 3), (other, one, 4), (one, other, 5)] {
                let world = &world;
                scope.spawn(move || {
                    let source = world.filled(home, value);
                    let mut target = world.filled(stream, 0);
                    target.copy_from(source.as_slice()).unwrap();
                    drop(source);
                    assert_eq!(target.to_vec().unwrap(), [value; LEN]);
                });
            }
        });
        drop(streams);
        world.end(Left::default());
    });
}

#[test]
fn one_event_serves_the_fences_of_every_thread() {
    check(|| {
        let world = World::new();
        let home = world.stream();
        let source = world.filled(&home, 7);
        thread::scope(|scope| {
            for value in 0..3 {
                let (world, home, source) = (&world, &home, &source);
                scope.spawn(move || {
                    let own = world.filled(home, value);
                    let stream = world.stream();
                    let mut target = world.filled(&stream, 0);
                    target.copy_from(own.as_slice()).unwrap();
                    assert_eq!(target.to_vec().unwrap(), [value; LEN]);
                    target.copy_from(source.as_slice()).unwrap();
                    // The last use of `own` was on another stream.
                    drop(own);
                    assert_eq!(target.to_vec().unwrap(), [7; LEN]);
                });
            }
        });
        drop((source, home));
        world.end(Left::default());
    });
}
