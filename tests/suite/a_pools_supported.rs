//! Devices and drivers whose pools are missing or refused.

use core::mem::offset_of;

use cupool::{
    Error, MemPool,
    cuda_sys::{CUdevice_attribute, CUmemLocation, CUmemPoolProps_v1},
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::Fixture;

#[test]
fn a10_pool_properties_are_laid_out_as_the_driver_reads_them() {
    assert_eq!(size_of::<CUmemPoolProps_v1>(), 88);
    assert_eq!(offset_of!(CUmemPoolProps_v1, allocType), 0);
    assert_eq!(offset_of!(CUmemPoolProps_v1, handleTypes), 4);
    assert_eq!(offset_of!(CUmemPoolProps_v1, location), 8);
    assert_eq!(offset_of!(CUmemLocation, id), 4);
    assert_eq!(offset_of!(CUmemPoolProps_v1, win32SecurityAttributes), 16);
    assert_eq!(offset_of!(CUmemPoolProps_v1, maxSize), 24);
    assert_eq!(offset_of!(CUmemPoolProps_v1, usage), 32);
    assert_eq!(offset_of!(CUmemPoolProps_v1, reserved), 34);
}

#[test]
fn a10_reserved_bytes_are_zero() {
    // A set bit there is a finding of the simulated driver, and a refusal of a real one.
    let fixture = Fixture::new();
    drop(fixture.pool());
}

#[test]
fn a14_where_the_current_pool_is_refused_the_default_one_still_answers() {
    let fixture = Fixture::simulated();
    fixture.sim().fail_every(Symbol::cuDeviceGetMemPool, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let device = fixture.device();
    // SAFETY: the pool is not used.
    let error = unsafe { MemPool::current_of(&device) }.unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert!(error.to_string().contains("cuDeviceGetMemPool"), "{error}");

    let stream = fixture.stream();
    let pool = MemPool::default_of(&device).unwrap();
    assert_eq!(pool.alloc_zeroed::<u8, _>(100, &stream).unwrap().to_vec().unwrap(), [0; 100]);
}

#[test]
fn a15_a_device_without_pools_says_so_before_any_pool_is_made() {
    let fixture = Fixture::with(Simulator::builder().pools_supported(false));
    let device = fixture.device();
    assert_eq!(device.memory_pools_supported(), Ok(false));
    let unsupported = Error::PoolsUnsupported { device: 0 };
    assert_eq!(MemPool::new(&device).unwrap_err(), unsupported);
    assert_eq!(MemPool::default_of(&device).unwrap_err(), unsupported);
    // SAFETY: the pool is not used.
    assert_eq!(unsafe { MemPool::current_of(&device) }.unwrap_err(), unsupported);
    assert!(unsupported.to_string().contains("MEMORY_POOLS_SUPPORTED"), "{unsupported}");
    let pool_calls = [Symbol::cuMemPoolCreate, Symbol::cuDeviceGetDefaultMemPool, Symbol::cuDeviceGetMemPool];
    assert_eq!(pool_calls.map(|symbol| fixture.sim().count(symbol)), [0; 3]);
    // No silent fallback to memory that is not ordered by streams.
    assert_eq!(fixture.sim().count(Symbol::cuMemAlloc), 0);
}

#[test]
fn a15_a_driver_that_cannot_say_whether_it_has_pools_is_tried() {
    let fixture = Fixture::simulated();
    let device = fixture.device();
    fixture.sim().fail(Symbol::cuDeviceGetAttribute, 0, CUresult::CUDA_ERROR_INVALID_VALUE);
    fixture.sim().fail(Symbol::cuMemPoolCreate, 0, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    let error = MemPool::new(&device).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    fixture.sim().fail(Symbol::cuDeviceGetAttribute, 0, CUresult::CUDA_ERROR_INVALID_VALUE);
    drop(MemPool::new(&device).unwrap());
}

#[test]
fn a15_pools_are_asked_about_by_their_own_attribute() {
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    let fixture = Fixture::with(Simulator::builder().attribute(attribute, 0));
    assert_eq!(MemPool::new(&fixture.device()).unwrap_err(), Error::PoolsUnsupported { device: 0 });
}

#[test]
fn a16_a_pool_that_the_driver_refuses_fails_at_its_creation_and_leaves_nothing() {
    let fixture = Fixture::simulated();
    let device = fixture.device();
    for code in [CUresult::CUDA_ERROR_NOT_SUPPORTED, CUresult::CUDA_ERROR_INVALID_VALUE] {
        fixture.sim().fail(Symbol::cuMemPoolCreate, 0, code);
        let error = MemPool::new(&device).unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(error.to_string().contains("cuMemPoolCreate"), "{error}");
        // The threshold is part of what a pool is: one that cannot be set ends the pool.
        fixture.sim().fail(Symbol::cuMemPoolSetAttribute, 0, code);
        assert_eq!(MemPool::new(&device).unwrap_err().code(), Some(code));
    }
    assert_eq!(fixture.sim().live().pools, 0);
}
