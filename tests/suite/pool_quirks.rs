//! Where drivers differ from their documentation, or from each other: addresses, attributes, values that are not kept.

use cupool::{
    Error, MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolRef,
    cuda_sys::CUmemPool_attribute as PoolAttribute,
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    pool_kinds::{make, properties},
};

#[test]
fn f17_what_a_pool_of_somebody_else_is_a_newer_driver_says_and_an_older_one_does_not() {
    let made = || properties().location(MemPoolLocation::HostNuma(1)).max_size(POOL_SIZE);
    for version in [13010, 13020] {
        let fixture = Fixture::with(Simulator::builder().driver_version(version));
        let device = fixture.device();
        let shared = make(&fixture, made().handle_types(MemHandleTypes::POSIX_FD)).unwrap();
        // SAFETY: the pool outlives what borrows it.
        let pool = unsafe { MemPoolRef::borrow_raw(device, shared.as_raw()) };
        let lacks = |attribute| Error::AttributeUnsupported(attribute);
        if version < 13020 {
            assert_eq!(pool.location(), Err(lacks(PoolAttribute::CU_MEMPOOL_ATTR_LOCATION_TYPE)));
            assert_eq!(pool.kind(), Err(lacks(PoolAttribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE)));
            assert_eq!(pool.max_size(), Err(lacks(PoolAttribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE)));
            assert_eq!(pool.handle_types(), Err(lacks(PoolAttribute::CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES)));
            let error = pool.hw_decompress().unwrap_err();
            assert_eq!(error, lacks(PoolAttribute::CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED));
            let says = "the driver lacks CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED (introduced in CUDA 13.2)";
            assert_eq!(error.to_string(), says);
        } else {
            assert_eq!(pool.location(), Ok(Some(MemPoolLocation::HostNuma(1))));
            assert_eq!(pool.kind(), Ok(Some(MemKind::Pinned)));
            assert_eq!(pool.max_size(), Ok(POOL_SIZE as u64));
            assert_eq!((pool.handle_types(), pool.hw_decompress()), (Ok(MemHandleTypes::POSIX_FD), Ok(false)));
        }
        // Other codes stay what they are.
        fixture.sim().fail(Symbol::cuMemPoolGetAttribute, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        assert_eq!(pool.kind().unwrap_err().code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    }
}

#[test]
fn f17_of_the_figures_only_peaks_can_be_reset_and_no_value_is_made_up() {
    let fixture = Fixture::new();
    let pool = fixture.pool();
    let set = fixture.driver().functions().cuMemPoolSetAttribute;
    // What the typed calls leave no way to ask for, the driver refuses.
    for (attribute, value) in [
        (PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0_u64),
        (PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0),
        (PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1),
        (PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 1),
    ] {
        let mut value = value;
        // SAFETY: the pool is live, and the attributes are of that type.
        let code = unsafe { set(pool.as_raw(), attribute, (&raw mut value).cast()) };
        assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE, "{attribute:?}");
    }
}

#[test]
fn f12_pools_with_a_limit_take_few_addresses_and_give_them_back() {
    let fixture = Fixture::alone();
    let (limit, rounds) = (2 << 20, 1000);
    let before = addresses(&fixture);
    let properties = properties().max_size(limit);
    let mut held: Vec<MemPool> = (0..10).map(|_| make(&fixture, properties).unwrap()).collect();
    let (with_ten, device) = (addresses(&fixture), fixture.device().total_memory().unwrap() as u64);
    assert!(with_ten - before < device, "{} bytes of addresses for ten pools", with_ten - before);
    held.clear();
    // The first round may leave something that is kept for the next.
    drop(make(&fixture, properties).unwrap());
    let before = addresses(&fixture);
    for _ in 0..rounds {
        drop(make(&fixture, properties).unwrap());
    }
    let grown = addresses(&fixture).saturating_sub(before);
    assert!(grown < rounds * limit as u64, "{grown} bytes of addresses after {rounds} pools");
}

/// Addresses that pools have reserved: in this process, whatever for, with a real driver.
fn addresses(fixture: &Fixture) -> u64 {
    if let Some(simulator) = fixture.simulator() {
        return simulator.live().address_space;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:")).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn f22_before_cuda_11_5_opportunistic_reuse_is_off_in_pools_of_our_own() {
    for (version, on) in [(11030, false), (11040, false), (11050, true), (13000, true)] {
        let fixture = Fixture::with(Simulator::builder().driver_version(version));
        let mut pool = MemPool::new(&fixture.device()).unwrap();
        assert_eq!(pool.reuse_allow_opportunistic(), Ok(on), "{version}");
        assert_eq!(pool.reuse_follow_event_dependencies(), Ok(true));
        assert_eq!(pool.reuse_allow_internal_dependencies(), Ok(true));
        // Whoever knows better may turn it on; pools that belong to others are left alone.
        pool.set_reuse_allow_opportunistic(true).unwrap();
        assert_eq!(pool.reuse_allow_opportunistic(), Ok(true));
        assert_eq!(MemPool::default_of(&fixture.device()).unwrap().reuse_allow_opportunistic(), Ok(true));
    }
    let fixture = Fixture::with(Simulator::builder().driver_version(11040));
    for code in [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_UNKNOWN] {
        fixture.sim().fail(Symbol::cuMemPoolSetAttribute, 0, code);
        assert_eq!(MemPool::new(&fixture.device()).unwrap_err().code(), Some(code));
    }
    assert_eq!(fixture.sim().live().pools, 0);
}

#[test]
fn f23_a_value_that_the_driver_takes_and_does_not_keep_is_an_error_with_both() {
    let fixture = Fixture::simulated();
    let mut pool = fixture.pool();
    fixture.sim().ignore_every(Symbol::cuMemPoolSetAttribute);
    let attribute = PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let error = pool.set_release_threshold(5).unwrap_err();
    assert_eq!(error, Error::AttributeNotKept { attribute, set: 5, read: u64::MAX });
    assert_eq!(error.to_string(), "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD was set to 5, and is 18446744073709551615");
    let attribute = PoolAttribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
    let error = pool.set_reuse_allow_opportunistic(false).unwrap_err();
    assert_eq!(error, Error::AttributeNotKept { attribute, set: 0, read: 1 });
    // A pool that would not keep its memory is none.
    let error = MemPool::new(&fixture.device()).unwrap_err();
    assert!(matches!(error, Error::AttributeNotKept { set: u64::MAX, read: 0, .. }), "{error:?}");
    assert_eq!(fixture.sim().live().pools, 1);
    fixture.sim().clear_faults();
    pool.set_release_threshold(5).unwrap();
    assert_eq!(pool.release_threshold(), Ok(5));
}

#[test]
fn f23_what_is_set_is_kept_by_this_driver() {
    let fixture = Fixture::new();
    let mut pool = fixture.pool();
    for bytes in [0, 1, 4095, 1 << 40, u64::MAX - 1, u64::MAX] {
        pool.set_release_threshold(bytes).unwrap();
    }
    for on in [false, true] {
        pool.set_reuse_follow_event_dependencies(on).unwrap();
        pool.set_reuse_allow_opportunistic(on).unwrap();
        pool.set_reuse_allow_internal_dependencies(on).unwrap();
    }
}
