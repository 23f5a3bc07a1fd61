//! The process's own pools: changed only when asked to, and then what they were.

use core::mem::forget;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Barrier,
    thread,
};

use cupool::{Buffer, CurrentPool, DefaultThreshold, Device, Driver, Error, MemPool, Stream};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, assert_no_findings},
    scenario,
};

/// The threshold of the default pool.
fn threshold(device: Device) -> u64 {
    MemPool::default_of(&device).unwrap().release_threshold().unwrap()
}

/// Sets it as another library would.
fn set_threshold(device: Device, mut bytes: u64) {
    let pool = MemPool::default_of(&device).unwrap();
    let attribute = cupool::cuda_sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool is live, and the attribute's value a `u64`.
    let code = unsafe {
        (device.driver().functions().cuMemPoolSetAttribute)(pool.as_raw(), attribute, (&raw mut bytes).cast())
    };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

fn raise(device: Device, bytes: u64) -> DefaultThreshold {
    MemPool::raise_default_threshold(&device, bytes).unwrap()
}

#[test]
fn f20_the_default_pools_threshold_is_raised_for_a_time() {
    let fixture = Fixture::alone();
    let (device, stream) = (fixture.device(), fixture.stream());
    assert_eq!(threshold(device), 0);
    let guard = raise(device, u64::MAX);
    assert!(guard.is_active());
    assert_eq!(threshold(device), u64::MAX);
    let pool = MemPool::default_of(&device).unwrap();
    drop(pool.alloc::<u8, _>(1 << 20, &stream).unwrap());
    stream.synchronize().unwrap();
    assert!(pool.usage().unwrap().reserved >= 1 << 20, "it keeps its memory");
    drop(guard);
    assert_eq!(threshold(device), 0);
    stream.synchronize().unwrap();
    pool.trim_to(0).unwrap();
}

#[test]
fn f20_guards_of_one_threshold_may_end_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let fixture = Fixture::alone();
        let device = fixture.device();
        let sizes = [10, 30, 20];
        let mut guards: Vec<Option<DefaultThreshold>> = sizes.map(|bytes| Some(raise(device, bytes))).into();
        assert_eq!(threshold(device), 30);
        for at in order {
            guards[at] = None;
            let highest = sizes.iter().zip(&guards).filter(|(_, guard)| guard.is_some()).map(|(bytes, _)| *bytes).max();
            assert_eq!(threshold(device), highest.unwrap_or(0), "{order:?}");
        }
    }
}

#[test]
fn f20_threads_that_raise_the_threshold_leave_it_as_it_was() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let together = Barrier::new(4);
    thread::scope(|scope| {
        for thread in 1..=4_u64 {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                for step in 0..100 {
                    let guard = raise(device, thread * 1000 + step);
                    assert!(guard.is_active());
                    assert!(threshold(device) >= thread * 1000 + step);
                }
            });
        }
    });
    assert_eq!(threshold(device), 0);
}

#[test]
fn f20_a_threshold_that_somebody_set_is_left_alone() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    set_threshold(device, 5);
    let guard = raise(device, 1000);
    assert!(!guard.is_active());
    assert_eq!(threshold(device), 5);
    drop(guard);
    assert_eq!(threshold(device), 5);
    set_threshold(device, 0);
}

#[test]
fn f20_a_threshold_that_somebody_sets_meanwhile_is_left_alone() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let (first, second) = (raise(device, 1000), raise(device, 2000));
    set_threshold(device, 7);
    assert!(!raise(device, 3000).is_active());
    drop(second);
    assert_eq!(threshold(device), 7);
    drop(first);
    assert_eq!(threshold(device), 7);
    // What is 0 counts as never set.
    set_threshold(device, 0);
    let again = raise(device, 1000);
    assert!(again.is_active());
    assert_eq!(threshold(device), 1000);
    drop(again);
    assert_eq!(threshold(device), 0);
}

#[test]
fn f20_nothing_is_raised_by_nothing() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    assert!(!raise(device, 0).is_active());
    assert_eq!(threshold(device), 0);
}

#[test]
fn f20_a_panic_takes_the_threshold_back() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = raise(device, 1000);
        assert_eq!(threshold(device), 1000);
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_eq!(threshold(device), 0);
}

#[test]
fn f20_devices_have_thresholds_of_their_own() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let [one, other] = [0, 1].map(|at| fixture.driver().device(at).unwrap());
    let guard = raise(one, 1000);
    assert_eq!((threshold(one), threshold(other)), (1000, 0));
    let second = raise(other, 2000);
    drop(guard);
    assert_eq!((threshold(one), threshold(other)), (0, 2000));
    drop(second);
    assert_eq!(threshold(other), 0);
}

#[test]
fn f20_a_threshold_that_could_not_be_raised_is_on_nobodys_account() {
    let fixture = Fixture::simulated();
    let device = fixture.device();
    for symbol in [Symbol::cuDeviceGetDefaultMemPool, Symbol::cuMemPoolGetAttribute, Symbol::cuMemPoolSetAttribute] {
        fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
        assert!(MemPool::raise_default_threshold(&device, 1000).is_err());
        fixture.sim().clear_faults();
        assert_eq!(threshold(device), 0, "{symbol:?}");
    }
    drop(raise(device, 500));
    assert_eq!(threshold(device), 0);
}

#[test]
fn f20_a_threshold_that_could_not_be_taken_back_is_by_the_next_guard() {
    let fixture = Fixture::simulated();
    let device = fixture.device();
    let guard = raise(device, 1000);
    fixture.sim().fail(Symbol::cuMemPoolSetAttribute, 0, CUresult::CUDA_ERROR_UNKNOWN);
    drop(guard);
    assert_eq!(threshold(device), 1000);
    let next = raise(device, 10);
    assert!(next.is_active());
    drop(next);
    assert_eq!(threshold(device), 0);
}

/// Whether that pool is the current one.
fn is_current(pool: &MemPool) -> bool {
    // SAFETY: the pool is not used.
    unsafe { MemPool::current_of(&pool.device()) }.unwrap().as_raw() == pool.as_raw()
}

fn default_is_current(device: Device) -> bool {
    is_current(&MemPool::default_of(&device).unwrap())
}

/// Makes a pool the current one as another library would.
fn set_current(pool: &MemPool) {
    let set = pool.driver().functions().cuDeviceSetMemPool.unwrap();
    // SAFETY: the pool is live, and on that device.
    assert_eq!(unsafe { set(pool.device().as_raw(), pool.as_raw()) }, CUresult::CUDA_SUCCESS);
}

#[test]
fn f20_a_pool_is_current_for_a_time_and_what_asks_for_none_allocates_from_it() {
    let fixture = Fixture::alone();
    let (device, mut pool, stream) = (fixture.device(), fixture.pool(), fixture.stream());
    assert!(default_is_current(device));
    let current = pool.make_current().unwrap();
    assert!(is_current(&current));
    let mut buffer = Buffer::<u32, _>::from_current_pool(1000, &stream).unwrap();
    assert_eq!(current.usage().unwrap().used, 4000);
    buffer.fill(5).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [5; 1000]);
    drop(buffer);
    assert_eq!(current.usage().unwrap().used, 0);
    drop(current.alloc::<u8, _>(10, &stream).unwrap());
    drop(current);
    assert!(default_is_current(device));
    drop(Buffer::<u32, _>::from_current_pool(1000, &stream).unwrap());
    assert_eq!(pool.usage().unwrap().used_high, 4000);
}

#[test]
fn f20_guards_of_the_current_pool_may_end_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let fixture = Fixture::alone();
        let device = fixture.device();
        let mut pools = [fixture.pool(), fixture.pool(), fixture.pool()];
        let raws = [0, 1, 2].map(|at| pools[at].as_raw());
        let mut guards: Vec<Option<CurrentPool<'_>>> =
            pools.iter_mut().map(|pool| Some(pool.make_current().unwrap())).collect();
        for at in order {
            guards[at] = None;
            let latest = (0..3).rev().find(|at| guards[*at].is_some());
            // SAFETY: the pool is not used.
            let current = unsafe { MemPool::current_of(&device) }.unwrap().as_raw();
            let default = MemPool::default_of(&device).unwrap().as_raw();
            assert_eq!(current, latest.map_or(default, |at| raws[at]), "{order:?}");
        }
    }
}

#[test]
fn f20_a_pool_that_ends_with_its_guard_is_never_made_current_again() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let (mut below, mut above) = (fixture.pool(), fixture.pool());
    let first = below.make_current().unwrap();
    let second = above.make_current().unwrap();
    drop(first);
    drop(below);
    assert!(is_current(&second));
    drop(second);
    assert!(default_is_current(device));
}

#[test]
fn f20_a_current_pool_that_somebody_chose_meanwhile_is_left_alone() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let (mut pool, theirs) = (fixture.pool(), fixture.pool());
    let guard = pool.make_current().unwrap();
    set_current(&theirs);
    drop(guard);
    assert!(is_current(&theirs));
    // It is nobody's business to keep theirs alive.
    assert_eq!(pool.make_current().unwrap_err(), Error::ForeignCurrentPool { device: 0 });
    assert!(is_current(&theirs));
    // SAFETY: it lives until the guard is dropped.
    let guard = unsafe { pool.make_current_over() }.unwrap();
    assert!(is_current(&guard));
    drop(guard);
    assert!(is_current(&theirs));
    drop(theirs);
    assert!(default_is_current(device));
}

#[test]
fn f20_somebody_elses_pool_is_not_made_current_by_guards_that_outlast_the_promise() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let (mut pool, mut other, theirs) = (fixture.pool(), fixture.pool(), fixture.pool());
    set_current(&theirs);
    // SAFETY: theirs lives until the guard is dropped.
    let first = unsafe { pool.make_current_over() }.unwrap();
    let second = other.make_current().unwrap();
    drop(first);
    drop(theirs);
    assert!(is_current(&second));
    drop(second);
    assert!(default_is_current(device));
}

#[test]
fn f20_a_forgotten_guard_ends_with_its_pool() {
    let fixture = Fixture::alone();
    let device = fixture.device();
    let (mut pool, mut below, mut given_up) = (fixture.pool(), fixture.pool(), fixture.pool());
    let kept = below.make_current().unwrap();
    forget(pool.make_current().unwrap());
    forget(pool.make_current().unwrap());
    assert!(is_current(&pool));
    drop(pool);
    assert!(is_current(&kept), "what was current before is again");
    forget(given_up.make_current().unwrap());
    let raw = given_up.into_raw();
    assert!(is_current(&kept));
    drop(kept);
    assert!(default_is_current(device));
    // SAFETY: the pool was given up above.
    drop(unsafe { MemPool::from_raw(device, raw) });
}

#[test]
fn f20_a_panic_takes_the_current_pool_back() {
    let fixture = Fixture::alone();
    let mut pool = fixture.pool();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _current = pool.make_current().unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert!(default_is_current(fixture.device()));
}

#[test]
fn f20_threads_with_current_pools_leave_the_default_one_current() {
    let fixture = Fixture::alone();
    let together = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (fixture, together) = (&fixture, &together);
            scope.spawn(move || {
                let stream = fixture.stream();
                together.wait();
                for _ in 0..30 {
                    let mut pool = fixture.pool();
                    let guard = pool.make_current().unwrap();
                    drop(Buffer::<u8, _>::from_current_pool(100, &stream).unwrap());
                    drop(guard);
                    // What it allocated may be another thread's pool's, which is to be gone soon.
                    stream.synchronize().unwrap();
                }
            });
        }
    });
    assert!(default_is_current(fixture.device()));
}

#[test]
fn f20_devices_have_current_pools_of_their_own() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let other = fixture.driver().device(1).unwrap();
    let (mut here, mut there) = (fixture.pool(), MemPool::new(&other).unwrap());
    let (first, second) = (here.make_current().unwrap(), there.make_current().unwrap());
    assert!(is_current(&first) && is_current(&second));
    drop(first);
    assert!(default_is_current(fixture.device()) && is_current(&second));
    drop(second);
    assert!(default_is_current(other));
}

#[test]
fn f20_a_pool_that_could_not_be_made_current_is_on_nobodys_account() {
    let fixture = Fixture::simulated();
    let mut pool = fixture.pool();
    for symbol in [Symbol::cuDeviceGetMemPool, Symbol::cuDeviceGetDefaultMemPool, Symbol::cuDeviceSetMemPool] {
        fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let error = pool.make_current().unwrap_err();
        assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED), "{symbol:?}");
        assert!(default_is_current(fixture.device()));
    }
    drop(pool.make_current().unwrap());
    assert!(default_is_current(fixture.device()));
    assert_no_findings(fixture.sim());
}

#[test]
fn f18_a_current_pool_may_be_destroyed_by_whoever_made_it_current() {
    let fixture = Fixture::alone();
    let stream = fixture.stream();
    let theirs = fixture.pool();
    set_current(&theirs);
    let buffer = Buffer::<u8, _>::from_current_pool(100, &stream).unwrap();
    drop(theirs);
    assert!(default_is_current(fixture.device()));
    drop(Buffer::<u8, _>::from_current_pool(100, &stream).unwrap());
    drop(buffer);
    stream.synchronize().unwrap();
}

#[test]
fn f27_what_does_not_fit_the_current_pool_is_said_in_figures() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let Err(Error::OutOfMemory(details)) = Buffer::<u8, _>::from_current_pool(1 << 46, &stream) else {
        panic!("it cannot fit")
    };
    assert_eq!((details.requested, details.usage, details.limit), (1 << 46, None, None));
    assert!(details.device.is_some());
    // Nothing is allocated for nothing, nor asked.
    assert!(Buffer::<u8, _>::from_current_pool(0, &stream).unwrap().is_empty());
    assert!(matches!(Buffer::<u64, _>::from_current_pool(usize::MAX, &stream), Err(Error::SizeOverflow { .. })));
}

#[test]
fn a15_a_device_without_pools_has_no_current_one_to_allocate_from() {
    let fixture = Fixture::with(
        Simulator::builder()
            .attribute(cupool::cuda_sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0),
    );
    let stream = fixture.stream();
    fixture.sim().fail(Symbol::cuMemAllocAsync, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let error = Buffer::<u8, _>::from_current_pool(1, &stream).unwrap_err();
    assert_eq!(error, Error::PoolsUnsupported { device: 0 });
}

#[test]
fn f20_nothing_is_changed_unasked() {
    let fixture = Fixture::simulated();
    assert_eq!(scenario::everything(fixture.driver()), []);
    assert!(default_is_current(fixture.device()));
    assert_eq!(threshold(fixture.device()), 0);
}

#[test]
fn a1_without_the_calls_for_it_no_pool_is_made_current_and_the_rest_works() {
    let fixture = Fixture::simulated();
    for missing in [Symbol::cuDeviceSetMemPool, Symbol::cuDeviceGetMemPool, Symbol::cuDeviceGetDefaultMemPool] {
        let mut functions = *fixture.driver().functions();
        match missing {
            Symbol::cuDeviceSetMemPool => functions.cuDeviceSetMemPool = None,
            Symbol::cuDeviceGetMemPool => functions.cuDeviceGetMemPool = None,
            _ => functions.cuDeviceGetDefaultMemPool = None,
        }
        // SAFETY: the entries are the simulated driver's.
        let driver = unsafe { Driver::from_functions(Box::leak(Box::new(functions))) };
        let device = driver.device(0).unwrap();
        let mut pool = MemPool::new(&device).unwrap();
        assert_eq!(pool.make_current().unwrap_err(), Error::Unsupported(missing));
        let raised = MemPool::raise_default_threshold(&device, 1000);
        assert_eq!(raised.is_err(), missing == Symbol::cuDeviceGetDefaultMemPool);
        let stream = Stream::new(&device.primary_context().unwrap()).unwrap();
        drop(pool.alloc::<u8, _>(10, &stream).unwrap());
        // For the pool to end at once.
        stream.synchronize().unwrap();
    }
}
