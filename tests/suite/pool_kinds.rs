//! Pools of every kind: what they are made as, what refuses them, and what they say of themselves.

use cupool::{
    Buffer, Device, Error, MemHandleTypes, MemKind, MemLocation, MemPool, MemPoolProperties, MemPoolRef, Result,
    Stream,
    cuda_sys::{CUdevice_attribute as Attribute, CUmemPool_attribute as PoolAttribute, CUstreamCaptureMode},
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::{Fixture, POOL_SIZE};

const fn properties() -> MemPoolProperties {
    MemPoolProperties::new()
}

fn make(fixture: &Fixture, properties: MemPoolProperties) -> Result<MemPool> {
    MemPool::with_properties(&fixture.device(), &properties)
}

/// The host's places for pools that this device has.
fn host_places(device: Device) -> Vec<MemLocation> {
    let mut places = Vec::new();
    if device.host_memory_pools_supported() == Ok(true) {
        places.push(MemLocation::Host);
    }
    if device.host_numa_memory_pools_supported() == Ok(true) && device.host_numa_id().is_ok_and(|node| node >= 0) {
        places.extend([MemLocation::HostNuma(device.host_numa_id().unwrap()), MemLocation::NearestHostNuma]);
    }
    places
}

/// Everything that is done with a buffer, with the pool's memory on one side or both.
fn use_it(pool: &MemPool, ordinary: &MemPool, stream: &Stream) {
    let mut buffer = pool.alloc_zeroed::<u32, _>(1000, stream).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0; 1000]);
    buffer.copy_from_host(&[1; 1000]).unwrap();
    buffer.slice_mut(10..20).unwrap().fill(2).unwrap();
    let mut there = ordinary.alloc::<u32, _>(1000, stream).unwrap();
    there.copy_from(buffer.as_slice()).unwrap();
    assert_eq!(there.slice(9..11).unwrap().to_vec().unwrap(), [1, 2]);
    there.fill(3).unwrap();
    buffer.slice_mut(500..).unwrap().copy_from(there.slice(500..).unwrap()).unwrap();
    assert_eq!(buffer.slice(499..501).unwrap().to_vec().unwrap(), [1, 3]);
    let mut twin = pool.alloc::<u32, _>(1000, stream).unwrap();
    twin.copy_from(buffer.as_slice()).unwrap();
    assert_eq!(twin.to_vec().unwrap(), buffer.to_vec().unwrap());
}

#[test]
fn a_device_uses_pools_of_host_memory_from_the_first_fill_on() {
    let fixture = Fixture::new();
    let (ordinary, stream) = (fixture.pool(), fixture.stream());
    let places = host_places(fixture.device());
    assert!(!places.is_empty(), "this device has no pools of host memory");
    for place in places {
        let pool = make(&fixture, properties().location(place).max_size(POOL_SIZE)).unwrap();
        use_it(&pool, &ordinary, &stream);
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_device_uses_managed_pools_wherever_they_would_rather_lie() {
    let fixture = Fixture::new();
    let (ordinary, stream) = (fixture.pool(), fixture.stream());
    assert_eq!(fixture.device().concurrent_managed_access(), Ok(true), "this device has no managed pools");
    let places = [vec![MemLocation::Device, MemLocation::Unspecified], host_places(fixture.device())].concat();
    for place in places {
        let pool = make(&fixture, properties().kind(MemKind::Managed).location(place)).unwrap();
        use_it(&pool, &ordinary, &stream);
        stream.synchronize().unwrap();
    }
}

#[test]
fn memory_of_a_host_pool_moves_between_streams_and_outlives_its_pool_as_any_does() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.stream(), fixture.shared_stream());
    let pool = make(&fixture, properties().location(MemLocation::Host).max_size(POOL_SIZE)).unwrap();
    let mut buffer = pool.alloc_zeroed::<u32, _>(100, &first).unwrap();
    drop(pool);
    buffer.on(&second).unwrap().as_mut_slice().fill(7).unwrap();
    let buffer: Buffer<u32> = buffer.move_to(second).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
    buffer.free().unwrap();
}

#[test]
fn a_pool_that_can_be_shared_allocates_as_another_does() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let supported = MemHandleTypes::from_bits(fixture.device().mem_pool_supported_handle_types().unwrap());
    assert!(supported.contains(MemHandleTypes::POSIX_FD), "{supported:?}");
    let pool = fixture.pool_with(properties().handle_types(MemHandleTypes::POSIX_FD));
    assert_eq!(pool.handle_types(), Ok(MemHandleTypes::POSIX_FD));
    assert_eq!(pool.alloc_zeroed::<u8, _>(10, &stream).unwrap().to_vec().unwrap(), [0; 10]);
}

#[test]
fn a_pool_says_what_it_was_made_as() {
    // What an older driver does not say is what was asked for; a newer one is asked.
    for fixture in [Fixture::new(), Fixture::with(Simulator::builder().driver_version(13020))] {
        for place in [vec![MemLocation::Device], host_places(fixture.device())].concat() {
            let node = || MemLocation::HostNuma(fixture.device().host_numa_id().unwrap());
            let resolved = if place == MemLocation::NearestHostNuma { node() } else { place };
            let pool = make(&fixture, properties().location(place).max_size(POOL_SIZE + 1)).unwrap();
            assert_eq!(pool.location(), Ok(Some(resolved)));
            assert_eq!((pool.kind(), pool.handle_types()), (Ok(Some(MemKind::Pinned)), Ok(MemHandleTypes::NONE)));
            assert_eq!(pool.hw_decompress(), Ok(false));
            let size = pool.max_size().unwrap();
            assert!((POOL_SIZE as u64 + 1..=2 * POOL_SIZE as u64).contains(&size), "{size}");
            let pool = make(&fixture, properties().kind(MemKind::Managed).location(place)).unwrap();
            assert_eq!((pool.location(), pool.kind()), (Ok(Some(resolved)), Ok(Some(MemKind::Managed))));
        }
        let nowhere = properties().kind(MemKind::Managed).location(MemLocation::Unspecified);
        assert_eq!(make(&fixture, nowhere).unwrap().location(), Ok(Some(MemLocation::Unspecified)));
    }
}

#[test]
fn f17_what_a_pool_of_somebody_else_is_a_newer_driver_says_and_an_older_one_does_not() {
    let made = || properties().location(MemLocation::HostNuma(1)).max_size(POOL_SIZE);
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
            assert_eq!(pool.location(), Ok(Some(MemLocation::HostNuma(1))));
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

#[test]
fn i17_a_host_pool_lies_on_the_node_nearest_to_its_device_or_on_the_one_that_is_asked_for() {
    let node = Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
    let fixture = Fixture::with(Simulator::builder().driver_version(13020).attribute(node, 1));
    let at = |place| make(&fixture, properties().location(place).max_size(POOL_SIZE)).unwrap().location();
    assert_eq!(at(MemLocation::NearestHostNuma), Ok(Some(MemLocation::HostNuma(1))));
    assert_eq!(at(MemLocation::HostNuma(0)), Ok(Some(MemLocation::HostNuma(0))));
    let error = make(&fixture, properties().location(MemLocation::HostNuma(77))).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));

    // No node is not node 0.
    let fixture = Fixture::with(Simulator::builder().attribute(node, -1));
    let error = make(&fixture, properties().location(MemLocation::NearestHostNuma)).unwrap_err();
    assert_eq!(error, Error::PoolKindUnsupported { device: 0, attribute: node, value: -1 });
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolCreate), 0);
}

/// Pools, and the attribute that denies each.
fn denied() -> Vec<(MemPoolProperties, Attribute)> {
    let numa = Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED;
    let shareable = Attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
    let near = properties().location(MemLocation::NearestHostNuma);
    let host = properties().location(MemLocation::Host);
    vec![
        (host, Attribute::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED),
        (host.kind(MemKind::Managed), Attribute::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED),
        (properties().location(MemLocation::HostNuma(0)), numa),
        (near, numa),
        (properties().kind(MemKind::Managed), Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
        (properties().handle_types(MemHandleTypes::POSIX_FD), shareable),
        (properties().handle_types(MemHandleTypes::FABRIC), shareable),
        (near.handle_types(MemHandleTypes::FABRIC), Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED),
        (properties().hw_decompress(true), Attribute::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK),
    ]
}

#[test]
fn a16_a_kind_that_the_device_denies_is_refused_by_that_attribute_before_a_pool_is_made() {
    for (properties, attribute) in denied() {
        let fixture = Fixture::with(Simulator::builder().attribute(attribute, 0));
        let error = make(&fixture, properties).unwrap_err();
        assert_eq!(error, Error::PoolKindUnsupported { device: 0, attribute, value: 0 }, "{properties:?}");
        assert!(error.to_string().contains("CU_DEVICE_ATTRIBUTE_"), "{error}");
        assert_eq!((error.code(), error.hint()), (None, None));
        assert_eq!(fixture.sim().count(Symbol::cuMemPoolCreate), 0);
    }
}

#[test]
fn a16_a_driver_that_cannot_say_whether_it_has_such_a_pool_is_tried() {
    for (properties, attribute) in denied() {
        let fixture = Fixture::with(Simulator::builder().attribute(attribute, 1));
        let supported = Attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
        if attribute != supported {
            fixture.device().attribute(supported).unwrap();
        }
        // The first question is whether there are pools at all, and the last may be which node is nearest.
        fixture.sim().fail(Symbol::cuDeviceGetAttribute, 1, CUresult::CUDA_ERROR_INVALID_VALUE);
        fixture.sim().fail(Symbol::cuMemPoolCreate, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let error = make(&fixture, properties).unwrap_err();
        let Error::Driver(refused) = &error else { panic!("{properties:?}: {error:?}") };
        assert_eq!((refused.call(), error.code()), (Symbol::cuMemPoolCreate, Some(CUresult::CUDA_ERROR_NOT_SUPPORTED)));
        assert_eq!(fixture.sim().live().pools, 0);
    }
}

#[test]
fn a16_a_question_that_fails_otherwise_is_an_error_and_no_pool_is_made() {
    for (properties, _) in denied() {
        let fixture = Fixture::simulated();
        fixture.sim().fail(Symbol::cuDeviceGetAttribute, 1, CUresult::CUDA_ERROR_UNKNOWN);
        assert_eq!(make(&fixture, properties).unwrap_err().code(), Some(CUresult::CUDA_ERROR_UNKNOWN));
        assert_eq!(fixture.sim().count(Symbol::cuMemPoolCreate), 0);
    }
}

#[test]
fn a16_managed_pools_need_all_devices_and_the_one_that_denies_them_is_named() {
    let fixture = Fixture::with(Simulator::builder().devices(3));
    // The third device's answer, after the question whether the first has pools.
    fixture.sim().fail(Symbol::cuDeviceGetAttribute, 3, CUresult::CUDA_ERROR_ECC_UNCORRECTABLE);
    let error = make(&fixture, properties().kind(MemKind::Managed)).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
    drop(make(&fixture, properties().kind(MemKind::Managed)).unwrap());
}

#[test]
fn a16_a_step_after_the_creation_that_fails_ends_the_pool() {
    let fixture = Fixture::simulated();
    for step in [Symbol::cuMemPoolSetAccess, Symbol::cuMemPoolSetAttribute, Symbol::cuMemPoolGetAttribute] {
        fixture.sim().fail(step, 0, CUresult::CUDA_ERROR_INVALID_VALUE);
        let error = make(&fixture, properties().location(MemLocation::Host)).unwrap_err();
        assert!(error.to_string().contains(step.row()), "{error}");
        assert_eq!(fixture.sim().live().pools, 0);
    }
}

#[test]
fn a16_without_a_default_managed_pool_one_of_our_own_still_works() {
    let fixture = Fixture::simulated();
    let (device, stream) = (fixture.device(), fixture.stream());
    fixture.sim().fail_every(Symbol::cuMemGetDefaultMemPool, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let error = MemPool::default_at(&device, MemLocation::Device, MemKind::Managed).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    let pool = make(&fixture, properties().kind(MemKind::Managed)).unwrap();
    assert_eq!(pool.alloc_zeroed::<u8, _>(10, &stream).unwrap().to_vec().unwrap(), [0; 10]);
}

#[test]
fn a15_a_device_without_pools_has_none_of_any_kind() {
    let fixture = Fixture::with(Simulator::builder().pools_supported(false));
    let (device, unsupported) = (fixture.device(), Error::PoolsUnsupported { device: 0 });
    for (properties, _) in denied() {
        assert_eq!(make(&fixture, properties).unwrap_err(), unsupported);
    }
    let (place, kind) = (MemLocation::Host, MemKind::Managed);
    assert_eq!(MemPool::default_at(&device, place, kind).unwrap_err(), unsupported);
    // SAFETY: the pool is not used.
    assert_eq!(unsafe { MemPool::current_at(&device, place, kind) }.unwrap_err(), unsupported);
    let calls = [Symbol::cuMemPoolCreate, Symbol::cuMemGetDefaultMemPool, Symbol::cuMemGetMemPool];
    assert_eq!(calls.map(|symbol| fixture.sim().count(symbol)), [0; 3]);
}

#[test]
fn a14_where_the_current_pool_of_a_place_is_refused_the_default_one_still_answers() {
    let fixture = Fixture::simulated();
    let (device, stream) = (fixture.device(), fixture.stream());
    fixture.sim().fail_every(Symbol::cuMemGetMemPool, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let (place, kind) = (MemLocation::Device, MemKind::Managed);
    // SAFETY: the pool is not used.
    let error = unsafe { MemPool::current_at(&device, place, kind) }.unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert!(error.to_string().contains("cuMemGetMemPool"), "{error}");
    let pool = MemPool::default_at(&device, place, kind).unwrap();
    assert_eq!(pool.alloc_zeroed::<u8, _>(100, &stream).unwrap().to_vec().unwrap(), [0; 100]);
}

#[test]
fn default_pools_of_places_are_the_current_ones_and_can_be_used() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let of_device = MemPool::default_of(&device).unwrap();
    let default = MemPool::default_at(&device, MemLocation::Device, MemKind::Pinned).unwrap();
    assert_eq!(default.as_raw(), of_device.as_raw());
    let places = [vec![MemLocation::Device, MemLocation::Unspecified], host_places(device)].concat();
    for (place, kind) in places.into_iter().map(|place| (place, MemKind::Managed)).chain([
        (MemLocation::Device, MemKind::Pinned),
        (MemLocation::Host, MemKind::Pinned),
        (MemLocation::NearestHostNuma, MemKind::Pinned),
    ]) {
        let pool = MemPool::default_at(&device, place, kind).unwrap();
        // SAFETY: nobody in this process makes another pool the current one.
        let current = unsafe { MemPool::current_at(&device, place, kind) }.unwrap();
        assert_eq!(pool.as_raw(), current.as_raw(), "{place:?} {kind:?}");
        let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
        stream.synchronize().unwrap();
        drop(buffer);
    }
    stream.synchronize().unwrap();
}

#[test]
fn pinned_host_memory_of_a_default_pool_is_the_hosts_alone() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let pool = MemPool::default_at(&fixture.device(), MemLocation::Host, MemKind::Pinned).unwrap();
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    assert_eq!(buffer.fill(1).unwrap_err().code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
}

#[test]
fn properties_that_do_not_go_together_are_refused_before_any_pool_is_made() {
    let fixture = Fixture::simulated();
    let managed = properties().kind(MemKind::Managed);
    for (properties, says) in [
        (managed.max_size(1), "limit"),
        (managed.handle_types(MemHandleTypes::POSIX_FD), "shared"),
        (managed.hw_decompress(true), "decompressed"),
        (properties().location(MemLocation::Unspecified), "lies somewhere"),
        (properties().location(MemLocation::Host).handle_types(MemHandleTypes::POSIX_FD), "shared"),
    ] {
        let error = make(&fixture, properties).unwrap_err();
        assert!(matches!(error, Error::PoolProperties(_)) && error.to_string().contains(says), "{error}");
    }
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolCreate), 0);
}

#[test]
fn a_primed_pool_holds_free_memory_that_the_next_allocations_take() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    pool.prime(40 << 20, &stream).unwrap();
    let primed = pool.usage().unwrap();
    assert_eq!(primed.used, 0);
    assert!(primed.reserved >= 40 << 20);
    stream.synchronize().unwrap();
    let parts = [(); 4].map(|()| pool.alloc::<u8, _>(10 << 20, &stream).unwrap());
    assert_eq!(pool.usage().unwrap().reserved, primed.reserved);
    drop(parts);
    // Nothing is no call.
    pool.prime(0, &stream).unwrap();
}

#[test]
fn priming_says_why_it_failed_and_leaves_nothing_in_use() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let Err(Error::OutOfMemory(details)) = pool.prime(2 * POOL_SIZE, &stream) else { panic!("it cannot fit") };
    assert_eq!((details.requested, details.limit), (2 * POOL_SIZE, Some(POOL_SIZE)));
    assert_eq!(pool.usage().unwrap().used, 0);

    let functions = fixture.driver().functions();
    let begin = functions.cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    assert_eq!(pool.prime(1 << 20, &stream), Err(Error::StreamCapturing));
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream captures, and the call writes one handle, which is used up at once.
    unsafe {
        assert_eq!(functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn a_primed_pool_that_keeps_nothing_gives_it_back_at_a_synchronisation() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool_with(properties().release_threshold(0)), fixture.stream());
    pool.prime(40 << 20, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().reserved, 0);
}

#[test]
fn making_any_pool_leaves_a_capture_of_another_stream_whole() {
    let fixture = Fixture::alone();
    let (stream, functions) = (fixture.stream(), fixture.driver().functions());
    let begin = functions.cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    for place in [vec![MemLocation::Device], host_places(fixture.device())].concat() {
        let pool = make(&fixture, properties().location(place).max_size(POOL_SIZE)).unwrap();
        assert!(pool.location().is_ok() && pool.max_size().is_ok());
    }
    drop(make(&fixture, properties().kind(MemKind::Managed)).unwrap());
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream captures, and the call writes one handle, which is used up at once.
    unsafe {
        let code = functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph);
        assert_eq!(code, CUresult::CUDA_SUCCESS, "the capture was spoilt");
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
}
