//! What a device says of itself.

use cupool::{Device, cuda_sys::CUdevice_attribute};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::Fixture;

#[test]
fn a_device_describes_itself() {
    let fixture = Fixture::new();
    let device = fixture.device();
    assert_eq!(device.as_raw(), 0);
    assert!(!device.name().unwrap().is_empty());
    let bus = device.pci_bus_id().unwrap();
    assert_eq!(bus.matches([':', '.']).count(), 3, "{bus}");
    assert!(device.total_memory().unwrap() > 0);
    let (major, _) = device.compute_capability().unwrap();
    assert!(major >= 3);
    assert_eq!(device.memory_pools_supported(), Ok(true));
    assert_eq!(device.warp_size(), Ok(32));
    assert!(device.multiprocessor_count().unwrap() > 0);
    assert!(device.unified_addressing().unwrap());
    assert_eq!(
        device.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap(),
        device.warp_size().unwrap() as i32
    );
    device.ensure_memory_pools_supported().unwrap();
}

#[test]
fn an_attribute_newer_than_the_driver_is_an_error() {
    let fixture = Fixture::new();
    let error = fixture.device().attribute(CUdevice_attribute(1_000_000)).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
}

#[test]
fn a_number_that_is_no_device_makes_calls_fail() {
    let fixture = Fixture::new();
    fixture.driver().init().unwrap();
    for raw in [-1, 1 << 20] {
        let device = Device::from_raw(fixture.driver(), raw);
        assert!(device.name().is_err());
        assert!(device.primary_context().is_err());
        assert!(cupool::MemPool::new(&device).is_err());
    }
}

#[test]
fn memory_info_counts_what_pools_hold() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let before = context.memory_info().unwrap();
    assert_eq!(before.total, fixture.device().total_memory().unwrap());
    let buffer = pool.alloc::<u8, _>(10 << 20, &stream).unwrap();
    let held = pool.usage().unwrap().reserved as usize;
    assert_eq!(before.free - context.memory_info().unwrap().free, held);
    drop(buffer);
    stream.synchronize().unwrap();
    pool.trim_to(0).unwrap();
    assert_eq!(context.memory_info(), Ok(before));
}

#[test]
fn every_device_is_listed_and_peers_are_asked_for() {
    let fixture = Fixture::with(Simulator::builder().devices(3));
    let devices: Vec<Device> = fixture.driver().devices().unwrap().map(Result::unwrap).collect();
    assert_eq!(devices.iter().map(|device| device.as_raw()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(devices[0].can_access_peer(devices[1]), Ok(true));
    assert_ne!(devices[0].uuid().unwrap(), devices[1].uuid().unwrap());
    let fixture = Fixture::with(Simulator::builder().devices(2).peer_access(false));
    let devices: Vec<Device> = fixture.driver().devices().unwrap().map(Result::unwrap).collect();
    assert_eq!(devices[0].can_access_peer(devices[1]), Ok(false));
}

#[test]
fn the_name_is_read_up_to_its_end() {
    let fixture = Fixture::with(Simulator::builder().name("Tesla, simulated"));
    assert_eq!(fixture.device().name().unwrap(), "Tesla, simulated");
}

#[test]
fn the_uuid_falls_back_to_the_older_entry_point() {
    let fixture = Fixture::simulated();
    let newer = fixture.device().uuid().unwrap();
    let functions = cupool::cuda_sys::Functions { cuDeviceGetUuid_v2: None, ..*fixture.driver().functions() };
    // SAFETY: the simulated driver's entries, all but one.
    let driver = unsafe { cupool::Driver::from_functions(Box::leak(Box::new(functions))) };
    assert_eq!(driver.device(0).unwrap().uuid(), Ok(newer));
    assert_eq!(fixture.sim().count(Symbol::cuDeviceGetUuid), 1);
    assert_eq!(newer.to_string(), format!("{newer:?}"));
    assert_eq!(newer.into_bytes().len(), 16);
}
