//! Memory used on two streams: whatever order the device chooses, each sees what it should.

use std::sync::Arc;

use cupool_sim::Simulator;

use crate::{fixture::Fixture, gate::Gate};

/// Enough orders of execution for a missing fence to show.
const SEEDS: u64 = 40;

/// Runs `test` on a driver that runs work as late as it can, and on ones that run it in other orders.
fn in_many_orders(test: impl Fn(&Fixture)) {
    test(&Fixture::new());
    for seed in 0..SEEDS {
        test(&Fixture::with(Simulator::builder().seed(seed)));
    }
}

#[test]
fn a_copy_sees_what_was_enqueued_before_it_and_nothing_of_what_comes_after() {
    in_many_orders(|fixture| {
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut source = pool.alloc::<u32, _>(5000, &first).unwrap();
        let mut target = pool.alloc::<u32, _>(5000, &second).unwrap();
        for round in 0..10 {
            source.fill(round).unwrap();
            target.fill(u32::MAX).unwrap();
            target.copy_from(source.as_slice()).unwrap();
            source.fill(1 << 20).unwrap();
            assert_eq!(target.to_vec().unwrap(), [round; 5000]);
        }
    });
}

#[test]
fn a_source_may_be_freed_and_its_memory_used_again_right_after_the_copy() {
    in_many_orders(|fixture| {
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut targets = Vec::new();
        for round in 0..10_u8 {
            let mut source = pool.alloc::<u8, _>(100_000, &first).unwrap();
            source.fill(round).unwrap();
            let mut target = pool.alloc::<u8, _>(100_000, &second).unwrap();
            target.copy_from(source.as_slice()).unwrap();
            drop(source);
            let mut again = pool.alloc::<u8, _>(100_000, &first).unwrap();
            again.fill(0xff).unwrap();
            targets.push((round, target));
        }
        for (round, target) in targets {
            assert!(target.to_vec().unwrap().iter().all(|byte| *byte == round), "round {round}");
        }
    });
}

#[test]
fn a_target_may_be_freed_right_after_the_copy() {
    in_many_orders(|fixture| {
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let source = pool.alloc_zeroed::<u8, _>(100_000, &first).unwrap();
        for _ in 0..10 {
            let mut target = pool.alloc::<u8, _>(100_000, &second).unwrap();
            target.copy_from(source.as_slice()).unwrap();
            drop(target);
        }
        drop(source);
        first.synchronize().unwrap();
        second.synchronize().unwrap();
    });
}

#[test]
fn streams_may_be_dropped_right_after_the_copy() {
    in_many_orders(|fixture| {
        let context = fixture.context();
        let (pool, first, second) = (fixture.pool(), fixture.shared_stream(), fixture.shared_stream());
        let mut source = pool.alloc::<u8, _>(100_000, Arc::clone(&first)).unwrap();
        source.fill(9).unwrap();
        let mut target = pool.alloc::<u8, _>(100_000, Arc::clone(&second)).unwrap();
        target.copy_from(source.as_slice()).unwrap();
        drop((first, second, source));
        // Their handles may be given out again: the order must not follow the handles.
        let (third, fourth) = (fixture.stream(), fixture.stream());
        drop(pool.alloc_zeroed::<u8, _>(100_000, &third).unwrap());
        drop(pool.alloc_zeroed::<u8, _>(100_000, &fourth).unwrap());
        assert!(target.to_vec().unwrap().iter().all(|byte| *byte == 9));
        drop(target);
        context.synchronize().unwrap();
    });
}

#[test]
fn wait_for_orders_everything_before_it() {
    in_many_orders(|fixture| {
        let (pool, first, second, third) = (fixture.pool(), fixture.stream(), fixture.stream(), fixture.stream());
        let mut one = pool.alloc::<u32, _>(1000, &first).unwrap();
        let mut two = pool.alloc::<u32, _>(1000, &second).unwrap();
        let mut three = pool.alloc::<u32, _>(1000, &third).unwrap();
        one.fill(1).unwrap();
        two.copy_from(one.as_slice()).unwrap();
        three.copy_from(two.as_slice()).unwrap();
        one.copy_from(three.as_slice()).unwrap();
        two.fill(0).unwrap();
        three.fill(0).unwrap();
        assert_eq!(one.to_vec().unwrap(), [1; 1000]);
    });
}

#[test]
fn work_in_front_of_the_source_is_waited_for_by_the_device() {
    let fixture = Fixture::alone();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut source = pool.alloc::<u32, _>(1 << 20, &first).unwrap();
    let mut target = pool.alloc::<u32, _>(1 << 20, &second).unwrap();
    source.fill(1).unwrap();
    let gate = Gate::on(&fixture, &first);
    source.fill(2).unwrap();
    target.fill(3).unwrap();
    target.copy_from(source.as_slice()).unwrap();
    source.fill(4).unwrap();
    // The copy must wait for the fill behind the gate.
    fixture.assert_pending(&second);
    gate.open();
    assert!(target.to_vec().unwrap().iter().all(|value| *value == 2));
    assert!(source.to_vec().unwrap().iter().all(|value| *value == 4));
}

#[test]
fn work_in_front_of_the_target_holds_up_the_sources_next_use_and_its_free() {
    let fixture = Fixture::alone();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut source = pool.alloc::<u32, _>(1 << 20, &first).unwrap();
    source.fill(1).unwrap();
    let mut target = pool.alloc::<u32, _>(1 << 20, &second).unwrap();
    let gate = Gate::on(&fixture, &second);
    target.copy_from(source.as_slice()).unwrap();
    source.fill(2).unwrap();
    // The source's home must wait for the copy.
    fixture.assert_pending(&first);
    drop(source);
    let mut again = pool.alloc::<u32, _>(1 << 20, &first).unwrap();
    again.fill(3).unwrap();
    fixture.assert_pending(&first);
    gate.open();
    assert!(target.to_vec().unwrap().iter().all(|value| *value == 1));
}

#[test]
fn d1_memory_freed_at_home_is_not_handed_out_while_another_stream_reads_it() {
    let fixture = Fixture::new();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    for round in 0..20_u32 {
        let mut source = pool.alloc::<u32, _>(1 << 20, &first).unwrap();
        source.fill(round).unwrap();
        let mut target = pool.alloc::<u32, _>(1 << 20, &second).unwrap();
        // Work that keeps the second stream behind the first.
        for _ in 0..4 {
            target.fill(u32::MAX).unwrap();
        }
        target.copy_from(source.as_slice()).unwrap();
        drop(source);
        let mut reused = pool.alloc::<u32, _>(1 << 20, &first).unwrap();
        reused.fill(1 << 30).unwrap();
        assert!(target.to_vec().unwrap().iter().all(|value| *value == round), "round {round}");
    }
}
