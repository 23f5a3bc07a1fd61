//! Pools that a device or a driver does not have: refused before any is made, with the reason.

use cupool::{
    Error, MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolProperties,
    cuda_sys::CUdevice_attribute as Attribute,
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    pool_kinds::{make, properties},
};

#[test]
fn i17_a_host_pool_lies_on_the_node_nearest_to_its_device_or_on_the_one_that_is_asked_for() {
    let node = Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
    let fixture = Fixture::with(Simulator::builder().driver_version(13020).attribute(node, 1));
    let at = |place| make(&fixture, properties().location(place).max_size(POOL_SIZE)).unwrap().location();
    assert_eq!(at(MemPoolLocation::NearestHostNuma), Ok(Some(MemPoolLocation::HostNuma(1))));
    assert_eq!(at(MemPoolLocation::HostNuma(0)), Ok(Some(MemPoolLocation::HostNuma(0))));
    let error = make(&fixture, properties().location(MemPoolLocation::HostNuma(77))).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));

    // No node is not node 0.
    let fixture = Fixture::with(Simulator::builder().attribute(node, -1));
    let error = make(&fixture, properties().location(MemPoolLocation::NearestHostNuma)).unwrap_err();
    assert_eq!(error, Error::PoolKindUnsupported { device: 0, attribute: node, value: -1 });
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolCreate), 0);
}

/// Pools, and the attribute that denies each.
fn denied() -> Vec<(MemPoolProperties, Attribute)> {
    let numa = Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED;
    let shareable = Attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
    let near = properties().location(MemPoolLocation::NearestHostNuma);
    let host = properties().location(MemPoolLocation::Host);
    vec![
        (host, Attribute::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED),
        (host.kind(MemKind::Managed), Attribute::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED),
        (properties().location(MemPoolLocation::HostNuma(0)), numa),
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
        let fixture = Fixture::with(Simulator::builder().unknown_attribute(attribute));
        let error = fixture.device().attribute(attribute).unwrap_err();
        assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
        fixture.sim().fail(Symbol::cuMemPoolCreate, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        let error = make(&fixture, properties).unwrap_err();
        let Error::Driver(refused) = &error else { panic!("{properties:?}: {error:?}") };
        assert_eq!((refused.call(), error.code()), (Symbol::cuMemPoolCreate, Some(CUresult::CUDA_ERROR_NOT_SUPPORTED)));
        assert_eq!(fixture.sim().live().pools, 0);
        drop(make(&fixture, properties).unwrap());
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
fn a16_every_device_is_asked_whether_it_has_managed_pools() {
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
        let error = make(&fixture, properties().location(MemPoolLocation::Host)).unwrap_err();
        assert!(error.to_string().contains(step.row()), "{error}");
        assert_eq!(fixture.sim().live().pools, 0);
    }
}

#[test]
fn a16_without_a_default_managed_pool_one_of_our_own_still_works() {
    let fixture = Fixture::simulated();
    let (device, stream) = (fixture.device(), fixture.stream());
    fixture.sim().fail_every(Symbol::cuMemGetDefaultMemPool, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let error = MemPool::default_at(&device, MemPoolLocation::Device, MemKind::Managed).unwrap_err();
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
    let (place, kind) = (MemPoolLocation::Host, MemKind::Managed);
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
    let (place, kind) = (MemPoolLocation::Device, MemKind::Managed);
    // SAFETY: the pool is not used.
    let error = unsafe { MemPool::current_at(&device, place, kind) }.unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert!(error.to_string().contains("cuMemGetMemPool"), "{error}");
    let pool = MemPool::default_at(&device, place, kind).unwrap();
    assert_eq!(pool.alloc_zeroed::<u8, _>(100, &stream).unwrap().to_vec().unwrap(), [0; 100]);
}

#[test]
fn properties_that_do_not_go_together_are_refused_before_any_pool_is_made() {
    let fixture = Fixture::simulated();
    let managed = properties().kind(MemKind::Managed);
    for (properties, says) in [
        (managed.max_size(1), "limit"),
        // A driver that has these wants to be passed security attributes with them.
        (properties().handle_types(MemHandleTypes::from_bits(2)), "offered"),
        (properties().handle_types(MemHandleTypes::from_bits(5)), "offered"),
        (managed.handle_types(MemHandleTypes::POSIX_FD), "shared"),
        (managed.hw_decompress(true), "decompressed"),
        (properties().location(MemPoolLocation::Unspecified), "lies somewhere"),
        (properties().location(MemPoolLocation::Host).handle_types(MemHandleTypes::POSIX_FD), "shared"),
    ] {
        let error = make(&fixture, properties).unwrap_err();
        assert!(matches!(error, Error::PoolProperties(_)) && error.to_string().contains(says), "{error}");
    }
    let nowhere = MemPool::default_at(&fixture.device(), MemPoolLocation::Unspecified, MemKind::Pinned);
    assert!(matches!(nowhere, Err(Error::PoolProperties(_))), "{nowhere:?}");
    let calls = [Symbol::cuMemPoolCreate, Symbol::cuMemGetDefaultMemPool];
    assert_eq!(calls.map(|symbol| fixture.sim().count(symbol)), [0; 2]);
}
