//! What pools keep, report and give back, and how they end.

use std::sync::Arc;

use cupool::{Buffer, MemPool, MemPoolProperties, Trimmed};
use cupool_sim::{CUresult, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    gate::Gate,
};

#[test]
fn f1_an_own_pool_keeps_its_memory_across_synchronisation() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    assert_eq!(pool.release_threshold(), Ok(u64::MAX));
    drop(pool.alloc::<u8, _>(1 << 20, &stream).unwrap());
    stream.synchronize().unwrap();
    let reserved = pool.usage().unwrap().reserved;
    assert!(reserved >= 1 << 20);
    for _ in 0..1000 {
        drop(pool.alloc::<u8, _>(1 << 20, &stream).unwrap());
        stream.synchronize().unwrap();
        assert_eq!(pool.usage().unwrap().reserved, reserved);
    }
}

#[test]
fn f1_a_threshold_of_zero_gives_everything_back_at_a_synchronisation() {
    let fixture = Fixture::alone();
    let pool = fixture.pool_with(MemPoolProperties { release_threshold: 0, ..Default::default() });
    let stream = fixture.stream();
    assert_eq!(pool.release_threshold(), Ok(0));
    drop(pool.alloc::<u8, _>(1 << 20, &stream).unwrap());
    assert!(pool.usage().unwrap().reserved >= 1 << 20);
    stream.synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().reserved, 0);
}

#[test]
fn f1_the_threshold_can_be_changed() {
    let fixture = Fixture::new();
    let mut pool = fixture.pool();
    for bytes in [0, 1, 12 << 20, u64::MAX] {
        pool.set_release_threshold(bytes).unwrap();
        assert_eq!(pool.release_threshold(), Ok(bytes));
    }
}

#[test]
fn f6_dropped_memory_is_held_and_not_used_and_a_trim_gives_it_back() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u8, _>(10 << 20, &stream).unwrap();
    assert_eq!(pool.usage().unwrap().used, 10 << 20);
    drop(buffer);
    let usage = pool.usage().unwrap();
    assert_eq!((usage.used, usage.used_high), (0, 10 << 20), "what is used falls when the free is enqueued");
    assert!(usage.reserved >= 10 << 20);
    stream.synchronize().unwrap();
    let trimmed = pool.trim_to(0).unwrap();
    assert_eq!(trimmed, Trimmed { released: usage.reserved, reserved: 0, used: 0 });
    assert_eq!(pool.usage().unwrap().reserved, 0);
}

#[test]
fn f7_a_trim_says_that_pending_frees_kept_it_from_giving_anything_back() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(32 << 20, &stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    buffer.fill(1).unwrap();
    drop(buffer);
    let before = pool.usage().unwrap();
    let trimmed = pool.trim_to(0).unwrap();
    assert_eq!(trimmed, Trimmed { released: 0, reserved: before.reserved, used: 0 });
    gate.open();
    stream.synchronize().unwrap();
    assert_eq!(pool.trim_to(0).unwrap().released, before.reserved);
}

#[test]
fn f8_a_trim_keeps_what_it_is_told_to_keep_and_what_is_in_use() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut kept = pool.alloc::<u8, _>(4 << 20, &stream).unwrap();
    kept.fill(5).unwrap();
    drop(pool.alloc::<u8, _>(40 << 20, &stream).unwrap());
    stream.synchronize().unwrap();
    let reserved = pool.usage().unwrap().reserved;
    assert_eq!(pool.trim_to(POOL_SIZE).unwrap(), Trimmed { released: 0, reserved, used: 4 << 20 });
    let trimmed = pool.trim_to(0).unwrap();
    assert!(trimmed.reserved >= 4 << 20);
    assert_eq!((trimmed.used, trimmed.released), (4 << 20, reserved - trimmed.reserved));
    assert!(kept.to_vec().unwrap().iter().all(|byte| *byte == 5));
}

#[test]
fn f12_a_size_limit_limits_the_addresses_that_a_pool_reserves() {
    let fixture = Fixture::simulated();
    let device = fixture.device();
    let reserved = || fixture.sim().live().address_space;
    let uncapped = MemPool::new(&device).unwrap();
    assert_eq!(reserved(), 2 * device.total_memory().unwrap() as u64);
    drop(uncapped);
    assert_eq!(reserved(), 0);
    let capped = fixture.pool();
    assert!((POOL_SIZE as u64..device.total_memory().unwrap() as u64).contains(&reserved()) || reserved() <= 1 << 30);
    let one = reserved();
    for _ in 0..1000 {
        drop(fixture.pool());
        assert_eq!(reserved(), one);
    }
    drop(capped);
    assert_eq!(reserved(), 0);
}

#[test]
fn f12_pools_can_be_made_and_dropped_again_and_again() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    for _ in 0..100 {
        let pool = fixture.pool();
        drop(pool.alloc::<u8, _>(100, &stream).unwrap());
    }
    stream.synchronize().unwrap();
}

#[test]
fn f15_a_pool_holds_no_more_than_its_limit() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let first = pool.alloc::<u8, _>(48 << 20, &stream).unwrap();
    let error = pool.alloc::<u8, _>(48 << 20, &stream).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    drop(first);
    drop(pool.alloc::<u8, _>(48 << 20, &stream).unwrap());
}

#[test]
fn f17_peaks_are_reset_to_what_is_used_and_held_now() {
    let fixture = Fixture::alone();
    let (mut pool, stream) = (fixture.pool(), fixture.stream());
    let kept = pool.alloc::<u8, _>(1000, &stream).unwrap();
    drop(pool.alloc::<u8, _>(40 << 20, &stream).unwrap());
    let before = pool.usage().unwrap();
    assert_eq!((before.used, before.used_high), (1000, 1000 + (40 << 20)));
    assert!(before.reserved_high >= before.reserved);
    stream.synchronize().unwrap();
    pool.trim_to(0).unwrap();
    pool.reset_peaks().unwrap();
    let after = pool.usage().unwrap();
    assert_eq!((after.used, after.used_high), (1000, 1000));
    assert_eq!(after.reserved_high, after.reserved);
    drop(kept);
}

#[test]
fn f18_a_pool_may_be_dropped_before_its_buffers_and_their_work() {
    let fixture = Fixture::alone();
    let stream = fixture.shared_stream();
    let pool = fixture.pool();
    let mut buffer: Buffer<u32> = pool.alloc(1 << 18, Arc::clone(&stream)).unwrap();
    let freed: Buffer<u32> = pool.alloc(1 << 18, Arc::clone(&stream)).unwrap();
    let gate = Gate::on(&fixture, &stream);
    buffer.fill(11).unwrap();
    drop(freed);
    drop(pool);
    buffer.slice_mut(..5).unwrap().fill(12).unwrap();
    gate.open();
    let values = buffer.to_vec().unwrap();
    assert_eq!((values[4], values[5], values[(1 << 18) - 1]), (12, 11, 11));
    drop(buffer);
    stream.synchronize().unwrap();
}

#[test]
fn f18_the_default_pool_is_used_and_never_destroyed() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let buffer = {
        let pool = MemPool::default_of(&device).unwrap();
        // SAFETY: nobody in this process makes another pool the current one.
        let current = unsafe { MemPool::current_of(&device) }.unwrap();
        assert_eq!(pool.as_raw(), current.as_raw());
        pool.alloc_from_host(&[1_u8, 2, 3], &stream).unwrap()
    };
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    drop(buffer);
    let again = MemPool::default_of(&device).unwrap();
    drop(again.alloc::<u8, _>(10, &stream).unwrap());
}

#[test]
fn f20_the_devices_current_pool_is_left_alone() {
    let fixture = Fixture::simulated();
    assert_eq!(crate::scenario::everything(fixture.driver()), []);
    for symbol in [Symbol::cuDeviceSetMemPool, Symbol::cuMemSetMemPool, Symbol::cuDevicePrimaryCtxReset] {
        assert_eq!(fixture.sim().count(symbol), 0, "{symbol:?}");
    }
    assert_eq!(MemPool::default_of(&fixture.device()).unwrap().release_threshold(), Ok(0));
}

#[test]
fn reuse_policies_are_on_and_can_be_changed() {
    let fixture = Fixture::new();
    let mut pool = fixture.pool();
    type Policy = (fn(&MemPool) -> cupool::Result<bool>, fn(&mut MemPool, bool) -> cupool::Result<()>);
    let policies: [Policy; 3] = [
        (MemPool::reuse_follow_event_dependencies, MemPool::set_reuse_follow_event_dependencies),
        (MemPool::reuse_allow_opportunistic, MemPool::set_reuse_allow_opportunistic),
        (MemPool::reuse_allow_internal_dependencies, MemPool::set_reuse_allow_internal_dependencies),
    ];
    for (changed, (get, set)) in policies.iter().enumerate() {
        assert_eq!(get(&pool), Ok(true));
        set(&mut pool, false).unwrap();
        for (other, (get, _)) in policies.iter().enumerate() {
            assert_eq!(get(&pool), Ok(other != changed));
        }
        set(&mut pool, true).unwrap();
    }
}

#[test]
fn pool_questions_are_asked_in_the_relaxed_capture_mode_which_is_restored() {
    let fixture = Fixture::simulated();
    let mut pool = fixture.pool();
    let questions: [fn(&mut MemPool); 5] = [
        |pool| assert!(pool.usage().is_ok()),
        |pool| pool.reset_peaks().unwrap(),
        |pool| assert!(pool.trim_to(0).is_ok()),
        |pool| pool.set_release_threshold(0).unwrap(),
        |pool| assert!(pool.reuse_allow_opportunistic().unwrap()),
    ];
    for question in questions {
        let ((), calls) = fixture.calls_of(|| question(&mut pool));
        assert_eq!(calls.first(), Some(&Symbol::cuThreadExchangeStreamCaptureMode));
        assert_eq!(calls.last(), Some(&Symbol::cuThreadExchangeStreamCaptureMode));
        assert_eq!(calls.iter().filter(|call| **call == Symbol::cuThreadExchangeStreamCaptureMode).count(), 2);
    }
    // What comes back from one more exchange is what was there before all of these.
    let mut mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    let exchange = fixture.driver().functions().cuThreadExchangeStreamCaptureMode.unwrap();
    // SAFETY: the call reads and writes one mode.
    assert_eq!(unsafe { exchange(&raw mut mode) }, CUresult::CUDA_SUCCESS);
    assert_eq!(mode, cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL);
}
