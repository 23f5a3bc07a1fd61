//! Where managed memory is told to be, and what the driver remembers of it.

use cupool::{Driver, Error, ManagedBuffer, MemLocation, Stream};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{fixture::Fixture, managed::managed_pool};

/// Elements in a page of every host that there is, and of the devices.
const PAGE: usize = 2 << 20;

#[test]
fn prefetches_go_there_and_back_and_change_no_element() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let mut buffer = ManagedBuffer::<u8, _>::alloc(2 * PAGE, &stream).unwrap();
    assert_eq!(buffer.last_prefetch_location(..), Ok(None));
    buffer.as_mut_slice().fill(3).unwrap();
    for location in [MemLocation::Device(device), MemLocation::Host, MemLocation::Device(device)] {
        buffer.prefetch(.., location).unwrap();
        assert_eq!(buffer.last_prefetch_location(..), Ok(Some(location)));
    }
    buffer.prefetch(..PAGE, MemLocation::Host).unwrap();
    assert_eq!(buffer.last_prefetch_location(..PAGE), Ok(Some(MemLocation::Host)));
    assert_eq!(buffer.last_prefetch_location(..), Ok(None));
    assert!(buffer.as_host_slice().unwrap().iter().all(|byte| *byte == 3));
    buffer.prefetch(3..3, MemLocation::Host).unwrap();
    assert_eq!(buffer.last_prefetch_location(3..3), Ok(None));
    assert_eq!(
        buffer.prefetch(..=2 * PAGE, MemLocation::Host),
        Err(Error::OutOfBounds { end: 2 * PAGE + 1, len: 2 * PAGE })
    );
}

#[test]
fn advice_is_remembered_for_the_range_that_it_was_given_for() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let buffer = ManagedBuffer::<u8, _>::alloc(2 * PAGE, &stream).unwrap();
    assert_eq!(buffer.is_read_mostly(..), Ok(false));
    buffer.set_read_mostly(..PAGE, true).unwrap();
    assert_eq!((buffer.is_read_mostly(..PAGE), buffer.is_read_mostly(..)), (Ok(true), Ok(false)));
    buffer.set_read_mostly(.., false).unwrap();
    assert_eq!(buffer.is_read_mostly(..PAGE), Ok(false));

    assert_eq!(buffer.preferred_location(..), Ok(None));
    for location in [MemLocation::Device(device), MemLocation::Host] {
        buffer.set_preferred_location(.., Some(location)).unwrap();
        assert_eq!(buffer.preferred_location(..), Ok(Some(location)));
    }
    buffer.set_preferred_location(PAGE.., Some(MemLocation::Device(device))).unwrap();
    assert_eq!(buffer.preferred_location(..), Ok(None));
    assert_eq!(buffer.preferred_location(PAGE..), Ok(Some(MemLocation::Device(device))));
    buffer.set_preferred_location(.., None).unwrap();
    assert_eq!(buffer.preferred_location(PAGE..), Ok(None));

    assert_eq!(buffer.accessed_by(..), Ok(vec![]));
    buffer.set_accessed_by(.., MemLocation::Device(device), true).unwrap();
    buffer.set_accessed_by(..PAGE, MemLocation::Host, true).unwrap();
    assert_eq!(buffer.accessed_by(..), Ok(vec![MemLocation::Device(device)]));
    let both = buffer.accessed_by(..PAGE).unwrap();
    assert!(both.len() == 2 && both.contains(&MemLocation::Host), "{both:?}");
    buffer.set_accessed_by(.., MemLocation::Device(device), false).unwrap();
    buffer.set_accessed_by(.., MemLocation::Host, false).unwrap();
    assert_eq!(buffer.accessed_by(..PAGE), Ok(vec![]));
}

#[test]
fn nothing_is_asked_about_no_elements() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    let buffer = ManagedBuffer::<u8, _>::alloc(0, &stream).unwrap();
    fixture.expect_calls(&[], || {
        buffer.prefetch(.., MemLocation::Host).unwrap();
        buffer.set_read_mostly(.., true).unwrap();
        buffer.set_preferred_location(.., None).unwrap();
        buffer.set_accessed_by(.., MemLocation::Host, true).unwrap();
        assert_eq!(buffer.is_read_mostly(..), Ok(false));
        assert_eq!((buffer.preferred_location(..), buffer.last_prefetch_location(..)), (Ok(None), Ok(None)));
        assert_eq!(buffer.accessed_by(..), Ok(vec![]));
    });
}

/// Advice is for memory of no pool; the driver does not say where a pool's memory was last told to go either.
#[test]
fn memory_of_a_pool_can_be_prefetched_and_not_advised() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let mut buffer = managed_pool(device).alloc::<u8, _>(2 * PAGE, &stream).unwrap().into_managed().unwrap();
    let advised = buffer.set_read_mostly(.., true).unwrap_err();
    assert_eq!(advised.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert_eq!(buffer.is_read_mostly(..), Ok(false));
    buffer.as_mut_slice().fill(1).unwrap();
    buffer.prefetch(.., MemLocation::Host).unwrap();
    assert!(buffer.as_host_slice().unwrap().iter().all(|byte| *byte == 1));
    buffer.prefetch(.., MemLocation::Device(device)).unwrap();
    stream.synchronize().unwrap();
    assert!(buffer.to_vec().unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn numa_nodes_are_locations_of_their_own() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    let buffer = ManagedBuffer::<u8, _>::alloc(100, &stream).unwrap();
    buffer.prefetch(.., MemLocation::HostNuma(0)).unwrap();
    assert_eq!(buffer.last_prefetch_location(..), Ok(Some(MemLocation::HostNuma(0))));
    buffer.prefetch(.., MemLocation::HostNumaCurrent).unwrap();
    buffer.set_preferred_location(.., Some(MemLocation::HostNuma(1))).unwrap();
    assert_eq!(buffer.preferred_location(..), Ok(Some(MemLocation::HostNuma(1))));
    let refused = buffer.set_accessed_by(.., MemLocation::HostNuma(0), true).unwrap_err();
    assert_eq!(refused.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
}

/// A driver before CUDA 12.2 has the calls that take a device's number.
#[test]
fn a9_drivers_with_the_older_calls_only_do_all_but_numa_nodes() {
    let fixture = Fixture::with(Simulator::builder().driver_version(12_010));
    let (device, stream) = (fixture.device(), fixture.stream());
    let buffer = ManagedBuffer::<u8, _>::alloc(100, &stream).unwrap();
    for location in [MemLocation::Device(device), MemLocation::Host] {
        let ((), calls) = fixture.calls_of(|| buffer.prefetch(.., location).unwrap());
        assert!(calls.contains(&Symbol::cuMemPrefetchAsync), "{calls:?}");
        assert_eq!(buffer.last_prefetch_location(..), Ok(Some(location)));
        buffer.set_preferred_location(.., Some(location)).unwrap();
        assert_eq!(buffer.preferred_location(..), Ok(Some(location)));
        buffer.set_accessed_by(.., location, true).unwrap();
    }
    buffer.set_read_mostly(.., true).unwrap();
    buffer.set_preferred_location(.., None).unwrap();
    assert_eq!((buffer.is_read_mostly(..), buffer.preferred_location(..)), (Ok(true), Ok(None)));
    assert_eq!(buffer.accessed_by(..).unwrap().len(), 2);
    let unsupported = Err(Error::Unsupported(Symbol::cuMemPrefetchAsync_v2));
    assert_eq!(buffer.prefetch(.., MemLocation::HostNuma(0)), unsupported);
    assert_eq!(buffer.set_preferred_location(.., Some(MemLocation::HostNumaCurrent)), unsupported);
    assert!(fixture.sim().calls().contains(&Symbol::cuMemAdvise));
    assert!(!fixture.sim().calls().contains(&Symbol::cuMemAdvise_v2));
}

#[test]
fn a1_without_either_call_the_newer_one_is_named() {
    let fixture = Fixture::simulated();
    let mut functions = *fixture.driver().functions();
    (functions.cuMemPrefetchAsync, functions.cuMemAdvise) = (None, None);
    (functions.cuMemAdvise_v2, functions.cuMemRangeGetAttribute) = (None, None);
    functions.cuMemPrefetchAsync_v2 = None;
    // SAFETY: the entries are the simulated driver's.
    let older = unsafe { Driver::from_functions(Box::leak(Box::new(functions))) };
    let stream = Stream::new(&older.device(0).unwrap().primary_context().unwrap()).unwrap();
    let buffer = ManagedBuffer::<u8, _>::alloc(100, &stream).unwrap();
    assert_eq!(buffer.prefetch(.., MemLocation::Host), Err(Error::Unsupported(Symbol::cuMemPrefetchAsync)));
    assert_eq!(buffer.set_read_mostly(.., true), Err(Error::Unsupported(Symbol::cuMemAdvise)));
    assert_eq!(buffer.is_read_mostly(..), Err(Error::Unsupported(Symbol::cuMemRangeGetAttribute)));
    assert_eq!(buffer.accessed_by(..), Err(Error::Unsupported(Symbol::cuMemRangeGetAttribute)));
}

#[test]
fn a_device_of_another_driver_is_no_location() {
    let (fixture, elsewhere) = (Fixture::simulated(), Fixture::simulated());
    let stream = fixture.stream();
    let buffer = ManagedBuffer::<u8, _>::alloc(100, &stream).unwrap();
    let there = MemLocation::Device(elsewhere.device());
    assert_eq!(buffer.prefetch(.., there), Err(Error::DriverMismatch));
    assert_eq!(buffer.set_accessed_by(.., there, true), Err(Error::DriverMismatch));
}

#[test]
fn a_prefetch_is_in_the_home_streams_order() {
    for seed in 0..10 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, home, other) = (managed_pool(fixture.device()), fixture.stream(), fixture.stream());
        let mut buffer = pool.alloc::<u8, _>(1000, &home).unwrap().into_managed().unwrap();
        buffer.on(&other).unwrap().as_mut_slice().fill(1).unwrap();
        buffer.prefetch(.., MemLocation::Host).unwrap();
        drop(buffer);
        drop(pool.alloc_zeroed::<u8, _>(1000, &home).unwrap());
    }
}

#[test]
fn g2_advice_and_questions_leave_a_capture_alone() {
    let fixture = Fixture::alone();
    let (stream, captured) = (fixture.stream(), fixture.stream());
    let buffer = ManagedBuffer::<u8, _>::alloc(PAGE, &stream).unwrap();
    let functions = fixture.driver().functions();
    let mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is live.
    assert_eq!(unsafe { functions.cuStreamBeginCapture.unwrap()(captured.as_raw(), mode) }, CUresult::CUDA_SUCCESS);
    buffer.set_read_mostly(.., true).unwrap();
    assert_eq!(buffer.is_read_mostly(..), Ok(true));
    buffer.prefetch(.., MemLocation::Host).unwrap();
    buffer.as_slice().pointer_info().unwrap();
    drop(ManagedBuffer::<u8, _>::alloc(PAGE, &stream).unwrap());
    let mut graph = core::ptr::null_mut();
    // SAFETY: as above; the call writes one handle, which is destroyed.
    unsafe {
        assert_eq!(functions.cuStreamEndCapture.unwrap()(captured.as_raw(), &raw mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
}
