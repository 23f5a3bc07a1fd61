//! Buffers and streams on several threads.

use std::{sync::Arc, thread};

use cupool::Buffer;

use crate::fixture::Fixture;

#[test]
fn buffers_are_sent_to_other_threads_and_dropped_there() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let buffers: Vec<Buffer<u32>> = (0..8_u32)
        .map(|value| {
            let mut buffer = pool.alloc(1000, Arc::clone(&stream)).unwrap();
            buffer.fill(value).unwrap();
            buffer
        })
        .collect();
    let threads: Vec<_> = buffers
        .into_iter()
        .enumerate()
        .map(|(value, buffer)| thread::spawn(move || assert_eq!(buffer.to_vec().unwrap(), [value as u32; 1000])))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().used, 0);
}

#[test]
fn threads_share_a_pool_each_with_a_stream_of_its_own() {
    let fixture = Fixture::new();
    let pool = fixture.pool();
    thread::scope(|scope| {
        for thread in 0..8_u32 {
            let (pool, fixture) = (&pool, &fixture);
            scope.spawn(move || {
                let stream = fixture.stream();
                for round in 0..100_u32 {
                    let value = thread << 16 | round;
                    let mut buffer = pool.alloc::<u32, _>(100 + round as usize, &stream).unwrap();
                    buffer.fill(value).unwrap();
                    assert!(buffer.to_vec().unwrap().iter().all(|found| *found == value));
                }
            });
        }
    });
    assert_eq!(pool.usage().unwrap().used, 0);
}

#[test]
fn threads_share_a_stream() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    thread::scope(|scope| {
        for thread in 0..8_u32 {
            let (pool, stream) = (&pool, &stream);
            scope.spawn(move || {
                for _ in 0..50 {
                    let mut buffer = pool.alloc::<u32, _>(100, stream).unwrap();
                    buffer.fill(thread).unwrap();
                    assert_eq!(buffer.to_vec().unwrap(), [thread; 100]);
                }
            });
        }
    });
}

#[test]
fn threads_that_fence_the_same_streams_make_one_event_for_each() {
    let fixture = Fixture::simulated();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let source = pool.alloc_zeroed::<u32, _>(1000, &first).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut target = pool.alloc::<u32, _>(1000, &second).unwrap();
                    target.copy_from(source.as_slice()).unwrap();
                }
            });
        }
    });
    assert_eq!(fixture.sim().live().events, 2);
}

#[test]
fn contexts_are_retained_and_released_by_many_threads() {
    let fixture = Fixture::new();
    let device = fixture.device();
    let _kept = fixture.context();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let context = device.primary_context().unwrap();
                    drop(cupool::Stream::new(&context).unwrap());
                    drop(cupool::Event::new(&context).unwrap());
                }
            });
        }
    });
}
