//! Taking a driver, initialising it, and codes that nobody expected.

use cupool::{Driver, Error};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, assert_no_findings},
    scenario,
};

#[test]
fn every_operation_works_on_a_whole_driver() {
    let fixture = Fixture::new();
    assert_eq!(scenario::everything(fixture.driver()), []);
}

#[test]
fn a1_a_driver_as_old_as_cuda_11_3_lacks_only_what_is_newer() {
    let fixture = Fixture::with(Simulator::builder().driver_version(11030));
    assert_eq!(fixture.driver().version(), Ok(11030));
    let failures = scenario::everything(fixture.driver());
    let expected = [
        ("a host pool", Error::PropertyUnsupported { property: "host memory", since: 13000 }),
        ("default_at", Error::Unsupported(Symbol::cuMemGetDefaultMemPool)),
        ("current_at", Error::Unsupported(Symbol::cuMemGetMemPool)),
        ("graph_memory_usage", Error::Unsupported(Symbol::cuDeviceGetGraphMemAttribute)),
        ("reset_graph_memory_peaks", Error::Unsupported(Symbol::cuDeviceSetGraphMemAttribute)),
        ("trim_graph_memory", Error::Unsupported(Symbol::cuDeviceGetGraphMemAttribute)),
        ("id", Error::Unsupported(Symbol::cuStreamGetId)),
        ("instantiate", Error::Unsupported(Symbol::cuGraphInstantiateWithFlags)),
    ];
    assert_eq!(failures, expected);
    assert_eq!(failures[6].1.to_string(), "the driver lacks cuStreamGetId (introduced in CUDA 12.0)");
}

#[test]
fn a5_no_visible_device_is_zero_devices_and_can_be_asked_again() {
    let fixture = Fixture::simulated();
    fixture.sim().fail_every(Symbol::cuInit, CUresult::CUDA_ERROR_NO_DEVICE);
    assert_eq!(fixture.driver().device_count(), Ok(0));
    assert_eq!(fixture.driver().devices().unwrap().count(), 0);
    let error = fixture.driver().device(0).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NO_DEVICE));
    assert!(error.hint().unwrap().contains("CUDA_VISIBLE_DEVICES"), "{error}");

    fixture.sim().clear_faults();
    assert_eq!(fixture.driver().device_count(), Ok(1));
    assert_eq!(fixture.driver().devices().unwrap().count(), 1);
}

#[test]
fn a5_a_driver_without_devices_answers_so() {
    let fixture = Fixture::with(Simulator::builder().devices(0));
    assert_eq!(fixture.driver().device_count(), Ok(0));
    let code = fixture.driver().device(0).unwrap_err().code().unwrap();
    assert!(matches!(code, CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE), "{code:?}");
}

#[test]
fn a5_a_negative_device_count_is_none() {
    // Hooked drivers have answered -1; the table's own function does here.
    unsafe extern "C" fn minus_one(count: *mut core::ffi::c_int) -> CUresult {
        // SAFETY: the caller passes a place for the count.
        unsafe { count.write(-1) };
        CUresult::CUDA_SUCCESS
    }
    let fixture = Fixture::simulated();
    let functions = cupool::cuda_sys::Functions { cuDeviceGetCount: minus_one, ..*fixture.driver().functions() };
    // SAFETY: all but one entry are the simulated driver's, and that one answers what it should not.
    let driver = unsafe { Driver::from_functions(Box::leak(Box::new(functions))) };
    assert_eq!(driver.device_count(), Ok(0));
}

#[test]
fn a_device_that_does_not_exist_is_an_error() {
    let fixture = Fixture::new();
    for ordinal in [fixture.driver().device_count().unwrap(), 1 << 20, u32::MAX] {
        let error = fixture.driver().device(ordinal).unwrap_err();
        assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_DEVICE), "{ordinal}");
    }
}

#[test]
fn a6_a_system_that_is_not_ready_is_asked_again() {
    for (code, hint) in [(802, "nvidia-fabricmanager"), (803, "reboot"), (804, "cuda-compat"), (999, "kernel log")] {
        let fixture = Fixture::simulated();
        fixture.sim().fail(Symbol::cuInit, 0, CUresult(code));
        let error = fixture.driver().device(0).unwrap_err();
        assert_eq!(error.code(), Some(CUresult(code)));
        let text = error.to_string();
        for part in ["cuInit", &code.to_string(), CUresult(code).name().unwrap(), hint] {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
        fixture.driver().init().unwrap();
        assert_eq!(fixture.driver().device_count(), Ok(1));
    }
}

#[test]
fn a7_codes_that_no_header_names_come_back_as_numbers() {
    for code in [0xffff_ffff, 9999, 1001] {
        for symbol in Symbol::ALL {
            let fixture = Fixture::unchecked();
            fixture.sim().fail_every(*symbol, CUresult(code));
            let failures = scenario::everything(fixture.driver());
            for (operation, error) in &failures {
                assert!(error.to_string().contains(&code.to_string()), "{symbol:?}, {operation}: {error}");
                assert_eq!(error.code(), Some(CUresult(code)), "{symbol:?}, {operation}");
                assert_eq!(error.hint(), None);
                assert!(!error.is_sticky());
            }
            assert_no_findings(fixture.sim());
        }
    }
}

#[test]
fn a12_taking_a_driver_initialises_nothing() {
    let fixture = Fixture::simulated();
    let driver = fixture.driver();
    assert!(!format!("{driver:?}").is_empty());
    assert!(driver.library().is_none());
    assert_eq!(fixture.sim().call_count(), 0);
    driver.version().unwrap();
    assert_eq!(fixture.sim().calls(), [Symbol::cuDriverGetVersion]);
}

#[test]
fn drivers_compare_by_their_table() {
    let (one, other) = (Fixture::simulated(), Fixture::simulated());
    assert_eq!(one.driver(), one.driver());
    assert_ne!(one.driver(), other.driver());
}

#[test]
fn objects_of_two_drivers_are_kept_apart() {
    let (one, other) = (Fixture::simulated(), Fixture::simulated());
    let (here, there) = (one.stream(), other.stream());
    let (pool, event) = (one.pool(), cupool::Event::new(&one.context()).unwrap());
    let mut mine = pool.alloc::<u8, _>(8, &here).unwrap();
    let theirs_pool = other.pool();
    let theirs = theirs_pool.alloc::<u8, _>(8, &there).unwrap();
    let before = (one.sim().call_count(), other.sim().call_count());
    assert_eq!(pool.alloc::<u8, _>(8, &there).unwrap_err(), Error::DriverMismatch);
    assert_eq!(mine.copy_from(theirs.as_slice()).unwrap_err(), Error::DriverMismatch);
    assert_eq!(here.wait_for(&there).unwrap_err(), Error::DriverMismatch);
    assert_eq!(there.wait(&event).unwrap_err(), Error::DriverMismatch);
    assert_eq!(event.record(&there).unwrap_err(), Error::DriverMismatch);
    assert!(!here.is_same(&there));
    assert_eq!((one.sim().call_count(), other.sim().call_count()), before);
}
