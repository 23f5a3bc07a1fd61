//! Drivers that lack an entry point: only what needs it fails, and says so.

use cupool::{
    Driver, Error,
    cuda_sys::{Functions, Need},
};
use cupool_sim::Symbol;

use crate::{fixture::Fixture, scenario};

/// The fixture's driver without some entry points.
pub(crate) fn without(fixture: &Fixture, missing: impl Fn(Symbol) -> bool) -> Result<Driver, Symbol> {
    let whole = fixture.driver().functions();
    // SAFETY: the addresses are those of the simulated driver's functions, or null.
    let functions = unsafe {
        Functions::resolve(|symbol| if missing(symbol) { core::ptr::null_mut() } else { whole.address(symbol) })
    }?;
    // SAFETY: the entries are the simulated driver's.
    Ok(unsafe { Driver::from_functions(Box::leak(Box::new(functions))) })
}

/// What passes through page-locked memory.
const HOST_COPIES: &[&str] = &[
    "alloc_from_host",
    "copy_from_host",
    "copy_to_host",
    "to_vec",
    "PinnedBuffer::new",
    "to_vec of a loan",
    "to_vec of a shared loan",
    "to_vec of what moved",
];

#[test]
fn a1_without_one_optional_entry_only_its_operations_fail_and_name_it() {
    for missing in Symbol::ALL.iter().filter(|symbol| symbol.need() == Need::Optional) {
        let fixture = Fixture::simulated();
        let driver = without(&fixture, |symbol| symbol == *missing).unwrap();
        let failures = scenario::everything(driver);
        for (operation, error) in &failures {
            assert_eq!(error, &Error::Unsupported(*missing), "{operation}");
            assert!(error.to_string().contains(missing.row()), "{error}");
            assert_eq!((error.code(), error.hint()), (None, None));
        }
        let expected: &[&str] = match missing {
            Symbol::cuDeviceGetName => &["name"],
            Symbol::cuDeviceGetPCIBusId => &["pci_bus_id"],
            Symbol::cuDeviceTotalMem => &["total_memory"],
            Symbol::cuDeviceCanAccessPeer => &["can_access_peer"],
            Symbol::cuMemGetInfo => &["memory_info"],
            Symbol::cuCtxSynchronize => &["Context::synchronize"],
            Symbol::cuCtxGetStreamPriorityRange => &["stream_priority_range"],
            Symbol::cuStreamGetId => &["id"],
            Symbol::cuStreamGetFlags | Symbol::cuStreamGetPriority => &["options"],
            Symbol::cuEventElapsedTime => &["elapsed_ms_since"],
            Symbol::cuDeviceGetDefaultMemPool => &["default_of"],
            Symbol::cuDeviceGetMemPool => &["current_of"],
            Symbol::cuMemGetDefaultMemPool => &["default_at"],
            Symbol::cuMemGetMemPool => &["current_at"],
            // A pool that the device could not use is not made.
            Symbol::cuMemPoolSetAccess => &["a host pool"],
            Symbol::cuMemAllocAsync => &["from_current_pool"],
            Symbol::cuMemPoolGetAccess => &["access_of"],
            Symbol::cuDeviceGetGraphMemAttribute => &["graph_memory_usage", "trim_graph_memory"],
            Symbol::cuDeviceSetGraphMemAttribute => &["reset_graph_memory_peaks"],
            Symbol::cuDeviceGraphMemTrim => &["trim_graph_memory"],
            // What could not be given back is not taken.
            Symbol::cuMemHostAlloc | Symbol::cuMemFreeHost => HOST_COPIES,
            Symbol::cuMemHostRegister | Symbol::cuMemHostUnregister => &["register"],
            Symbol::cuStreamGetCaptureInfo => &["capture_status"],
            Symbol::cuStreamBeginCapture | Symbol::cuStreamEndCapture | Symbol::cuGraphDestroy => &["Graph::capture"],
            Symbol::cuGraphInstantiateWithFlags | Symbol::cuGraphExecDestroy => &["instantiate"],
            Symbol::cuGraphLaunch => &["launch of a graph"],
            _ => &[],
        };
        let failed: Vec<&str> = failures.iter().map(|(operation, _)| *operation).collect();
        assert_eq!(failed, expected, "{missing:?}");
    }
}

#[test]
fn a1_without_any_optional_entry_all_that_is_left_works() {
    let fixture = Fixture::simulated();
    let driver = without(&fixture, |symbol| symbol.need() == Need::Optional).unwrap();
    let failures = scenario::everything(driver);
    assert!(failures.iter().all(|(_, error)| matches!(error, Error::Unsupported(_))), "{failures:?}");
    let failed: Vec<&str> = failures.iter().map(|(operation, _)| *operation).collect();
    for operation in ["alloc", "alloc_zeroed", "copy_from another home", "fill 2", "on", "move_to", "free"] {
        assert!(!failed.contains(&operation), "{operation}");
    }
}

#[test]
fn a1_without_a_required_entry_there_is_no_driver() {
    let fixture = Fixture::simulated();
    for missing in Symbol::ALL.iter().filter(|symbol| symbol.need() == Need::Required) {
        assert_eq!(without(&fixture, |symbol| symbol == *missing), Err(*missing));
    }
}

#[test]
fn a1_without_the_question_whether_a_stream_is_captured_a_rescue_still_works() {
    let fixture = Fixture::simulated();
    let driver = without(&fixture, |symbol| symbol == Symbol::cuStreamIsCapturing).unwrap();
    let device = driver.device(0).unwrap();
    let stream = cupool::Stream::new(&device.primary_context().unwrap()).unwrap();
    assert_eq!(stream.is_capturing(), Ok(false));
    let properties = cupool::MemPoolProperties::new().max_size(32 << 20);
    let pool = cupool::MemPool::with_properties(&device, &properties).unwrap();
    let Err(Error::OutOfMemory(details)) = pool.alloc::<u8, _>(1 << 30, &stream) else { panic!("it cannot fit") };
    assert_eq!(details.rescue, cupool::Rescue::Tried);
}
