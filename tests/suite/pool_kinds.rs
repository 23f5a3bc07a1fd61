//! Pools of every kind: what the device does with them, and what they say of themselves.

use cupool::{
    Buffer, Device, Error, MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolProperties, Result, Stream,
    cuda_sys::{CUdevice_attribute as Attribute, CUstreamCaptureMode},
};
use cupool_sim::{CUresult, Simulator};

use crate::fixture::{Fixture, POOL_SIZE};

pub(crate) const fn properties() -> MemPoolProperties {
    MemPoolProperties::new()
}

pub(crate) fn make(fixture: &Fixture, properties: MemPoolProperties) -> Result<MemPool> {
    MemPool::with_properties(&fixture.device(), &properties)
}

/// The host's places for pools that this device has.
fn host_places(device: Device) -> Vec<MemPoolLocation> {
    let mut places = Vec::new();
    if device.host_memory_pools_supported() == Ok(true) {
        places.push(MemPoolLocation::Host);
    }
    if device.host_numa_memory_pools_supported() == Ok(true) && device.host_numa_id().is_ok_and(|node| node >= 0) {
        places.extend([MemPoolLocation::HostNuma(device.host_numa_id().unwrap()), MemPoolLocation::NearestHostNuma]);
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
    let places = [vec![MemPoolLocation::Device, MemPoolLocation::Unspecified], host_places(fixture.device())].concat();
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
    let pool = make(&fixture, properties().location(MemPoolLocation::Host).max_size(POOL_SIZE)).unwrap();
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
fn a_pool_for_hardware_decompression_is_made_where_the_device_decompresses() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let attribute = Attribute::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;
    let made = make(&fixture, properties().hw_decompress(true).max_size(POOL_SIZE));
    if device.mem_decompress_algorithms() == Ok(0) {
        let denied = Error::PoolKindUnsupported { device: device.as_raw(), attribute, value: 0 };
        assert_eq!(made.unwrap_err(), denied);
        return;
    }
    let pool = made.unwrap();
    assert_eq!(pool.hw_decompress(), Ok(true));
    assert_eq!(pool.alloc_zeroed::<u8, _>(10, &stream).unwrap().to_vec().unwrap(), [0; 10]);
}

#[test]
fn a_pool_says_what_it_was_made_as() {
    // What an older driver does not say is what was asked for; a newer one is asked.
    for fixture in [Fixture::new(), Fixture::with(Simulator::builder().driver_version(13020))] {
        for place in [vec![MemPoolLocation::Device], host_places(fixture.device())].concat() {
            let node = || MemPoolLocation::HostNuma(fixture.device().host_numa_id().unwrap());
            let resolved = if place == MemPoolLocation::NearestHostNuma { node() } else { place };
            let pool = make(&fixture, properties().location(place).max_size(POOL_SIZE + 1)).unwrap();
            assert_eq!(pool.location(), Ok(Some(resolved)));
            assert_eq!((pool.kind(), pool.handle_types()), (Ok(Some(MemKind::Pinned)), Ok(MemHandleTypes::NONE)));
            assert_eq!(pool.hw_decompress(), Ok(false));
            let size = pool.max_size().unwrap();
            assert!((POOL_SIZE as u64 + 1..=2 * POOL_SIZE as u64).contains(&size), "{size}");
            let pool = make(&fixture, properties().kind(MemKind::Managed).location(place)).unwrap();
            assert_eq!((pool.location(), pool.kind()), (Ok(Some(resolved)), Ok(Some(MemKind::Managed))));
        }
        let nowhere = properties().kind(MemKind::Managed).location(MemPoolLocation::Unspecified);
        assert_eq!(make(&fixture, nowhere).unwrap().location(), Ok(Some(MemPoolLocation::Unspecified)));
    }
}

#[test]
fn default_pools_of_places_are_the_current_ones_and_can_be_used() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let of_device = MemPool::default_of(&device).unwrap();
    let default = MemPool::default_at(&device, MemPoolLocation::Device, MemKind::Pinned).unwrap();
    assert_eq!(default.as_raw(), of_device.as_raw());
    let places = [vec![MemPoolLocation::Device, MemPoolLocation::Unspecified], host_places(device)].concat();
    for (place, kind) in places.into_iter().map(|place| (place, MemKind::Managed)).chain([
        (MemPoolLocation::Device, MemKind::Pinned),
        (MemPoolLocation::Host, MemKind::Pinned),
        (MemPoolLocation::NearestHostNuma, MemKind::Pinned),
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
    let pool = MemPool::default_at(&fixture.device(), MemPoolLocation::Host, MemKind::Pinned).unwrap();
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    assert_eq!(buffer.fill(1).unwrap_err().code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
}

#[test]
fn making_any_pool_leaves_a_capture_of_another_stream_whole() {
    let fixture = Fixture::alone();
    let (stream, functions) = (fixture.stream(), fixture.driver().functions());
    let begin = functions.cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    for place in [vec![MemPoolLocation::Device], host_places(fixture.device())].concat() {
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
