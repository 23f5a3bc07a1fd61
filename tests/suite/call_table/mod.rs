//! Every public operation and the driver calls that it makes, on one stream unless it says otherwise: a table, printed
//! with `--nocapture`, and committed as `benches/results/driver-calls.md`.

/// Operations that make no call.
macro_rules! none {
    ($table:ident: $($operation:expr => $run:expr;)*) => { $( let _ = $table.row($operation, &[], || $run); )* };
}

mod captures;
mod copies;
#[cfg(feature = "dlpack")]
mod dlpack;
mod exceptions;
mod foreign;
mod graphs;
#[cfg(feature = "launch")]
mod launches;
mod memory;
mod page;
mod page_locked;
mod pool_kinds;
mod pressure;
#[cfg(unix)]
mod sharing;

use core::mem::forget;
use std::{collections::BTreeSet, sync::Arc};

use cupool::{
    Buffer, Context, ContextRef, Device, Driver, Error, Event, EventRef, MemPool, MemPoolRef, Stream, StreamOptions,
    StreamRef, TimedEvent, recent_release_failures, release_failures,
};
use cupool_sim::{
    Simulator,
    Symbol::{self, *},
};

use crate::{
    committed,
    fixture::{Fixture, POOL_SIZE},
    surface,
};
use exceptions::EXCEPTIONS;

/// The second of these is the one that matters: the first and the last leave somebody else's capture alone.
const EXCHANGE: Symbol = cuThreadExchangeStreamCaptureMode;
/// The end of a pool that holds nothing.
const POOL_ENDS: &[Symbol] = &[EXCHANGE, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolDestroy, EXCHANGE];

/// Operations that take a library, and the tests of loading call them.
const ELSEWHERE: [&str; 3] = ["Driver::load", "Driver::load_from", "LoadFailure::error"];

struct Table<'a> {
    fixture: &'a Fixture,
    rows: Vec<(String, Vec<Symbol>)>,
}

impl Table<'_> {
    /// Runs an operation, which must make just these calls.
    #[track_caller]
    fn row<R>(&mut self, operation: &str, expected: &[Symbol], run: impl FnOnce() -> R) -> R {
        let (result, calls) = self.fixture.calls_of(run);
        assert_eq!(calls, expected, "{operation}");
        assert!(self.rows.iter().all(|(of, _)| of != operation), "{operation} stands there already");
        self.rows.push((operation.to_owned(), calls));
        result
    }
}

#[test]
fn every_operation_makes_the_calls_that_the_table_says() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let mut table = Table { fixture: &fixture, rows: Vec::new() };
    let device = drivers(&mut table, fixture.driver());
    contexts(&mut table, device);
    streams(&mut table);
    events(&mut table);
    pools(&mut table, device);
    pool_kinds::pool_kinds(&mut table, device);
    buffers(&mut table);
    views(&mut table);
    copies::copies(&mut table);
    loans(&mut table);
    page_locked::page_locked(&mut table);
    captures::captures(&mut table);
    pressure::pressure(&mut table, device);
    memory::default_streams(&mut table);
    memory::managed(&mut table);
    memory::pointers_and_peers(&mut table);
    foreign::foreign(&mut table);
    foreign::conversions(&mut table);
    #[cfg(feature = "dlpack")]
    dlpack::dlpack(&mut table);
    #[cfg(unix)]
    sharing::sharing(&mut table);
    errors(&mut table);
    graphs::graphs(&mut table);
    #[cfg(feature = "launch")]
    launches::launches(&mut table);
    let rows = table.rows;
    for (operation, calls) in &rows {
        let names: Vec<&str> = calls.iter().map(|call| call.row()).collect();
        println!("| {operation:<55} | {:>2} | {}", calls.len(), names.join(" "));
    }
    all_operations_are_there(&rows);
    exceptions_are_all_and_only_these(&rows);
    if cfg!(all(unix, feature = "dlpack", feature = "launch")) {
        let committed = include_str!("../../../benches/results/driver-calls.md");
        committed::assert_same("benches/results/driver-calls.md", committed, &page::page(&rows));
    }
}

fn all_operations_are_there(rows: &[(String, Vec<Symbol>)]) {
    let operations = surface::operations();
    let tried: BTreeSet<&str> = rows.iter().map(|(of, _)| of.split(" (").next().unwrap_or(of)).collect();
    let missing: Vec<&String> = operations
        .iter()
        .filter(|operation| !tried.contains(operation.as_str()) && !ELSEWHERE.contains(&operation.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:#?}");
    let unknown: Vec<&&str> =
        tried.iter().filter(|of| !of.starts_with("drop of ") && !operations.contains(**of)).collect();
    assert!(unknown.is_empty(), "no operations: {unknown:#?}");
}

fn exceptions_are_all_and_only_these(rows: &[(String, Vec<Symbol>)]) {
    let costs = |call: &Symbol| {
        let name = format!("{call:?}");
        ["cuEvent", "cuCtx", "cuDevicePrimaryCtx", "cuStreamWaitEvent", "cuStreamQuery"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || name.ends_with("Synchronize")
    };
    let found: BTreeSet<&str> =
        rows.iter().filter(|(_, calls)| calls.iter().any(costs)).map(|(of, _)| of.as_str()).collect();
    let launches = |of: &&str| cfg!(feature = "launch") || !(of.contains("Module") || of.contains("Function"));
    let tensors = |of: &&str| cfg!(feature = "dlpack") || !(of.contains("dlpack") || of.contains("Tensor"));
    let listed: BTreeSet<&str> =
        EXCEPTIONS.iter().flat_map(|(_, of)| of.iter().copied()).filter(launches).filter(tensors).collect();
    assert_eq!(found.difference(&listed).collect::<Vec<_>>(), Vec::<&&str>::new(), "exceptions that are not listed");
    assert_eq!(listed.difference(&found).collect::<Vec<_>>(), Vec::<&&str>::new(), "exceptions that are none");
}

fn drivers(table: &mut Table<'_>, driver: Driver) -> Device {
    table.row("Driver::version", &[cuDriverGetVersion], || driver.version().unwrap());
    table.row("Driver::init", &[cuInit], || driver.init().unwrap());
    table.row("Driver::device_count", &[cuInit, cuDeviceGetCount], || driver.device_count().unwrap());
    table.row("Driver::devices", &[cuInit, cuDeviceGetCount], || driver.devices().map(drop).unwrap());
    let device = table.row("Driver::device", &[cuInit, cuDeviceGet], || driver.device(0).unwrap());
    table.row("Device::name", &[cuDeviceGetName], || device.name().unwrap());
    table.row("Device::pci_bus_id", &[cuDeviceGetPCIBusId], || device.pci_bus_id().unwrap());
    let uuid = table.row("Device::uuid", &[cuDeviceGetUuid_v2], || device.uuid().unwrap());
    table.row("Device::total_memory", &[cuDeviceTotalMem], || device.total_memory().unwrap());
    let warp = cupool::cuda_sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    table.row("Device::attribute", &[cuDeviceGetAttribute], || device.attribute(warp).unwrap());
    table.row("Device::compute_capability", &[cuDeviceGetAttribute; 2], || device.compute_capability().unwrap());
    table.row("Device::can_access_peer", &[cuDeviceCanAccessPeer], || device.can_access_peer(device).unwrap());
    let supported = || device.ensure_memory_pools_supported().unwrap();
    table.row("Device::ensure_memory_pools_supported", &[cuDeviceGetAttribute], supported);
    macro_rules! attributes {
        ($($name:ident)*) => {
            $( table.row(concat!("Device::", stringify!($name)), &[cuDeviceGetAttribute], || drop(device.$name())); )*
        };
    }
    attributes! {
        memory_pools_supported mem_pool_supported_handle_types host_memory_pools_supported
        host_numa_memory_pools_supported host_numa_multinode_ipc_supported mem_decompress_algorithms host_numa_id managed_memory concurrent_managed_access pageable_memory_access
        host_register_supported unified_addressing virtual_memory_management_supported fabric_handle_supported
        gpu_direct_rdma_supported ipc_event_supported integrated ecc_enabled kernel_execution_timeout concurrent_kernels
        stream_priorities_supported async_engine_count multiprocessor_count warp_size max_threads_per_block
        max_shared_memory_per_block l2_cache_size memory_bus_width memory_clock_rate clock_rate
    }
    none! { table:
        // SAFETY: it is this driver's own table.
        "Driver::from_functions" => unsafe { Driver::from_functions(driver.functions()) };
        "Driver::functions" => core::ptr::from_ref(driver.functions());
        "Driver::library" => driver.library().is_some();
        "Device::from_raw" => Device::from_raw(driver, 0);
        "Device::as_raw" => device.as_raw();
        "Device::driver" => device.driver();
        "Uuid::into_bytes" => uuid.into_bytes();
    }
    device
}

fn contexts(table: &mut Table<'_>, device: Device) {
    let context =
        table.row("Device::primary_context", &[cuDevicePrimaryCtxRetain], || device.primary_context().unwrap());
    let active = [cuDevicePrimaryCtxGetState];
    table.row("Device::is_primary_context_active", &active, || device.is_primary_context_active().unwrap());
    // SAFETY: nothing is borrowed: there is none.
    table.row("ContextRef::current", &[cuInit, cuCtxGetCurrent], || unsafe {
        ContextRef::current(device.driver()).unwrap().map(drop)
    });
    let inside = |call: Symbol| [cuCtxPushCurrent, call, cuCtxPopCurrent];
    table.row("Context::memory_info", &inside(cuMemGetInfo), || context.memory_info().unwrap());
    table.row("Context::synchronize", &inside(cuCtxSynchronize), || context.synchronize().unwrap());
    let range = inside(cuCtxGetStreamPriorityRange);
    table.row("Context::stream_priority_range", &range, || context.stream_priority_range().unwrap());
    let current = [cuCtxPushCurrent, cuCtxPopCurrent];
    table.row("Context::with_current", &current, || context.with_current(|| Ok(())).unwrap());
    none! { table:
        "Context::as_raw" => context.as_raw();
        "Context::device" => context.device();
        "Context::driver" => context.driver();
        "Context::try_clone" => context.try_clone().unwrap();
    }
    let again = context.try_clone().unwrap();
    let raw = table.row("Context::into_raw", &[cuDevicePrimaryCtxRetain], || again.into_raw().unwrap());
    // SAFETY: the retain was just given up.
    let again = table.row("Context::from_raw", &[], || unsafe { Context::from_raw(device, raw) });
    table.row("drop of Context", &[cuDevicePrimaryCtxRelease], || drop(again));
    // SAFETY: the context outlives what borrows it.
    let borrowed = table.row("ContextRef::borrow_raw", &[], || unsafe { ContextRef::borrow_raw(device, raw) });
    let owned =
        table.row("Context::try_clone (borrowed)", &[cuDevicePrimaryCtxRetain], || borrowed.try_clone().unwrap());
    table.row("drop of ContextRef", &[], || drop(borrowed));
    table.row("drop of Context (borrowed twice)", &[cuDevicePrimaryCtxRelease], || drop(owned));
}

fn streams(table: &mut Table<'_>) {
    let fixture = table.fixture;
    let context = fixture.context();
    let create = [cuCtxPushCurrent, cuStreamCreateWithPriority, cuCtxPopCurrent];
    let stream = table.row("Stream::new", &create, || Stream::new(&context).unwrap());
    let options = StreamOptions { blocking: true, priority: -1 };
    let other = table.row("Stream::with_options", &create, || Stream::with_options(&context, options).unwrap());
    table.row("Stream::synchronize", &[cuStreamSynchronize], || stream.synchronize().unwrap());
    table.row("Stream::query", &[cuStreamQuery], || stream.query().unwrap());
    table.row("Stream::id", &[cuStreamGetId], || stream.id().unwrap());
    table.row("Stream::options", &[cuStreamGetFlags, cuStreamGetPriority], || stream.options().unwrap());
    table.row("Stream::is_capturing", &[cuStreamIsCapturing], || stream.is_capturing().unwrap());
    let capturing = [cuStreamIsCapturing, cuLaunchHostFunc];
    let (_, calls) = fixture.calls_of(|| stream.call_host(|| {}).unwrap());
    let asks = calls.first() == Some(&cuStreamIsCapturing);
    table
        .row("Stream::call_host", if asks { &capturing } else { &capturing[1..] }, || stream.call_host(|| {}).unwrap());
    none! { table:
        "Stream::wait_for (itself)" => stream.wait_for(&stream).unwrap();
        "Stream::as_raw" => stream.as_raw();
        "Stream::context" => stream.context().as_raw();
        "Stream::driver" => stream.driver();
        "Stream::is_same" => stream.is_same(&other);
    }
    let fence = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent, cuEventRecord, cuStreamWaitEvent];
    table.row("Stream::wait_for (the first time)", &fence, || other.wait_for(&stream).unwrap());
    table.row("Stream::wait_for", &fence[3..], || other.wait_for(&stream).unwrap());
    // SAFETY: the stream is of that context, and outlives what borrows it.
    let borrowed =
        table.row("StreamRef::borrow_raw", &[], || unsafe { StreamRef::borrow_raw(&context, other.as_raw()) });
    table.row("drop of StreamRef", &[], || drop(borrowed));
    let (raw, of) =
        table.row("Stream::into_raw_parts (others wait for it)", &[cuEventDestroy], || stream.into_raw_parts());
    // SAFETY: these are the parts of the stream above.
    let stream = table.row("Stream::from_raw_parts", &[], || unsafe { Stream::from_raw_parts(raw, of) });
    other.wait_for(&stream).unwrap();
    table.row("drop of Stream (others wait for it)", &[cuEventDestroy, cuStreamDestroy], || drop(stream));
    table.row("drop of Stream", &[cuStreamDestroy], || drop(other));
}

fn events(table: &mut Table<'_>) {
    let (context, stream) = (table.fixture.context(), table.fixture.stream());
    let create = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    let event = table.row("Event::new", &create, || Event::new(&context).unwrap());
    let [start, end] = [TimedEvent::new(&context).unwrap(), TimedEvent::new(&context).unwrap()];
    drop(table.row("TimedEvent::new", &create, || TimedEvent::new(&context).unwrap()));
    table.row("Event::record", &[cuEventRecord], || event.record(&stream).unwrap());
    table.row("Stream::wait", &[cuStreamWaitEvent], || stream.wait(&event).unwrap());
    table.row("Event::query", &[EXCHANGE, cuEventQuery, EXCHANGE], || event.query().unwrap());
    table.row("Event::synchronize", &[EXCHANGE, cuEventSynchronize, EXCHANGE], || event.synchronize().unwrap());
    start.record(&stream).unwrap();
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    table.row("TimedEvent::elapsed_ms_since", &[cuEventElapsedTime], || end.elapsed_ms_since(&start).unwrap());
    none! { table:
        "Event::as_raw" => event.as_raw();
        "Event::context" => event.context().as_raw();
        "Event::driver" => event.driver();
        // SAFETY: the event is of that context, and outlives what borrows it.
        "EventRef::borrow_raw" => unsafe { EventRef::borrow_raw(&context, event.as_raw()) };
    }
    let (raw, of) = table.row("Event::into_raw_parts", &[], || event.into_raw_parts());
    // SAFETY: these are the parts of the event above.
    let event = table.row("Event::from_raw_parts", &[], || unsafe { Event::from_raw_parts(raw, of) });
    table.row("drop of Event", &[cuEventDestroy], || drop(event));
}

fn pools(table: &mut Table<'_>, device: Device) {
    let create = [
        &[cuDeviceGetAttribute, cuDriverGetVersion, EXCHANGE, cuMemPoolCreate, EXCHANGE][..],
        &[EXCHANGE, cuMemPoolSetAttribute, cuMemPoolGetAttribute, EXCHANGE],
    ]
    .concat();
    drop(table.row("MemPool::new", &create, || MemPool::new(&device).unwrap()));
    let properties = cupool::MemPoolProperties::new().release_threshold(0).max_size(POOL_SIZE);
    // The driver's own threshold is not set again.
    let with = || MemPool::with_properties(&device, &properties).unwrap();
    let mut pool = table.row("MemPool::with_properties", &create[..5], with);
    let default = [cuDeviceGetAttribute, cuDeviceGetDefaultMemPool];
    table.row("MemPool::default_of", &default, || MemPool::default_of(&device).map(drop).unwrap());
    let current = [cuDeviceGetAttribute, cuDeviceGetMemPool];
    // SAFETY: the pool is not used.
    table.row("MemPool::current_of", &current, || unsafe { MemPool::current_of(&device) }.map(drop).unwrap());
    let get = |times| [&[EXCHANGE][..], &[cuMemPoolGetAttribute].repeat(times), &[EXCHANGE]].concat();
    // What was set is read back.
    let set = [EXCHANGE, cuMemPoolSetAttribute, cuMemPoolGetAttribute, EXCHANGE];
    let reset = [EXCHANGE, cuMemPoolSetAttribute, cuMemPoolSetAttribute, EXCHANGE];
    table.row("MemPool::usage", &get(4), || pool.usage().unwrap());
    table.row("MemPool::reset_peaks", &reset, || pool.reset_peaks().unwrap());
    table.row("MemPool::release_threshold", &get(1), || pool.release_threshold().unwrap());
    table.row("MemPool::set_release_threshold", &set, || pool.set_release_threshold(1).unwrap());
    let trim =
        [EXCHANGE, cuMemPoolGetAttribute, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolGetAttribute, EXCHANGE];
    table.row("MemPool::trim_to", &trim, || pool.trim_to(0).unwrap());
    macro_rules! policies {
        ($($get:ident $set:ident)*) => { $(
            table.row(concat!("MemPool::", stringify!($get)), &get(1), || pool.$get().unwrap());
            table.row(concat!("MemPool::", stringify!($set)), &set, || pool.$set(true).unwrap());
        )* };
    }
    policies! {
        reuse_follow_event_dependencies set_reuse_follow_event_dependencies
        reuse_allow_opportunistic set_reuse_allow_opportunistic
        reuse_allow_internal_dependencies set_reuse_allow_internal_dependencies
    }
    none! { table:
        "MemPool::as_raw" => pool.as_raw();
        "MemPool::device" => pool.device();
        "MemPool::driver" => pool.driver();
        "MemPool::set_rescue" => pool.set_rescue(true);
        // SAFETY: the pool outlives what borrows it.
        "MemPoolRef::borrow_raw" => unsafe { MemPoolRef::borrow_raw(device, pool.as_raw()) };
    }
    let raw = table.row("MemPool::into_raw", &[], || pool.into_raw());
    // SAFETY: the pool was just given up.
    let pool = table.row("MemPool::from_raw", &[], || unsafe { MemPool::from_raw(device, raw) });
    table.row("drop of MemPool", POOL_ENDS, || drop(pool));
    table.row("MemPool::destroy_dropped", &[], || MemPool::destroy_dropped(device.driver()).unwrap());
}

fn buffers(table: &mut Table<'_>) {
    let (pool, stream) = (table.fixture.pool(), table.fixture.shared_stream());
    let buffer =
        table.row("MemPool::alloc", &[cuMemAllocFromPoolAsync], || pool.alloc::<u32, _>(64, &*stream).unwrap());
    table.row("drop of Buffer", &[cuMemFreeAsync], || drop(buffer));
    let buffer: Buffer<u32> = table
        .row("MemPool::alloc (shared)", &[cuMemAllocFromPoolAsync], || pool.alloc(64, Arc::clone(&stream)).unwrap());
    table.row("Buffer::free", &[cuMemFreeAsync], || buffer.free().unwrap());
    let none = table.row("MemPool::alloc (no elements)", &[], || pool.alloc::<u32, _>(0, &*stream).unwrap());
    table.row("drop of Buffer (no elements)", &[], || drop(none));
    let zeroed = [cuMemAllocFromPoolAsync, cuMemsetD8Async];
    let mut buffer = table.row("MemPool::alloc_zeroed", &zeroed, || pool.alloc_zeroed::<u32, _>(64, &*stream).unwrap());
    let rescue = [
        &[cuMemAllocFromPoolAsync, cuStreamIsCapturing, cuStreamSynchronize][..],
        &[EXCHANGE, cuMemPoolGetAttribute, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolGetAttribute, EXCHANGE],
        &[cuMemAllocFromPoolAsync],
        &[
            EXCHANGE,
            cuMemPoolGetAttribute,
            cuMemPoolGetAttribute,
            cuMemPoolGetAttribute,
            cuMemPoolGetAttribute,
            EXCHANGE,
        ],
        &[cuCtxPushCurrent, cuMemGetInfo, cuCtxPopCurrent],
    ];
    let too_much = || pool.alloc::<u8, _>(2 * POOL_SIZE, &*stream).unwrap_err();
    table.row("MemPool::alloc (in vain)", &rescue.concat(), too_much);
    none! { table:
        "Buffer::len" => buffer.len();
        "Buffer::is_empty" => buffer.is_empty();
        "Buffer::byte_len" => buffer.byte_len();
        "Buffer::as_raw" => buffer.as_raw();
        "Buffer::home" => buffer.home().as_raw();
        "Buffer::stream" => buffer.stream().as_raw();
        "Buffer::as_slice" => buffer.as_slice().len();
        "Buffer::as_mut_slice" => buffer.as_mut_slice().len();
        "Buffer::slice" => buffer.slice(1..).map(drop).unwrap();
        "Buffer::slice_mut" => buffer.slice_mut(1..).map(drop).unwrap();
    }
    table.row("Buffer::fill", &[cuMemsetD32Async], || buffer.fill(1).unwrap());
    table.row("Buffer::fill_zero", &[cuMemsetD8Async], || buffer.fill_zero().unwrap());
    let bytes = table.row("Buffer::cast", &[], || buffer.cast::<u8>().unwrap());
    let (address, len, home) = table.row("Buffer::into_raw_parts", &[], || bytes.into_raw_parts());
    // SAFETY: these are the parts of the buffer above.
    drop(table.row("Buffer::from_raw_parts", &[], || unsafe { Buffer::<u8, _>::from_raw_parts(address, len, home) }));
}

fn views(table: &mut Table<'_>) {
    let (pool, stream) = (table.fixture.pool(), table.fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(64, &stream).unwrap();
    macro_rules! both {
        ($($kind:ident $view:expr;)*) => { $( none! { table:
            concat!(stringify!($kind), "::len") => $view.len();
            concat!(stringify!($kind), "::is_empty") => $view.is_empty();
            concat!(stringify!($kind), "::byte_len") => $view.byte_len();
            concat!(stringify!($kind), "::as_raw") => $view.as_raw();
            concat!(stringify!($kind), "::home") => $view.home().as_raw();
            concat!(stringify!($kind), "::slice") => $view.slice(1..).map(drop).unwrap();
            concat!(stringify!($kind), "::split_at") => $view.split_at(1).map(drop).unwrap();
            concat!(stringify!($kind), "::cast") => $view.cast::<u8>().map(drop).unwrap();
            concat!(stringify!($kind), "::from_raw_parts") => {
                let (address, len) = ($view.as_raw(), $view.len());
                // SAFETY: these are the parts of the view.
                unsafe { cupool::$kind::<u32>::from_raw_parts(address, len, &stream) }.len()
            };
        } )* };
    }
    both! {
        DeviceSlice buffer.as_slice();
        DeviceSliceMut buffer.as_mut_slice();
    }
    let mut view = buffer.as_mut_slice();
    none! { table:
        "DeviceSliceMut::as_slice" => view.as_slice().len();
        "DeviceSliceMut::reborrow" => view.reborrow().len();
    }
    table.row("DeviceSliceMut::fill", &[cuMemsetD32Async], || view.fill(1).unwrap());
    table.row("DeviceSliceMut::fill_zero", &[cuMemsetD8Async], || view.fill_zero().unwrap());
    let mut halves = buffer.as_mut_slice().cast::<u16>().unwrap();
    table.row("DeviceSliceMut::fill (two bytes)", &[cuMemsetD16Async], || halves.fill(1).unwrap());
    let mut bytes = buffer.as_mut_slice().cast::<u8>().unwrap();
    table.row("DeviceSliceMut::fill (one byte)", &[cuMemsetD8Async], || bytes.fill(1).unwrap());
}

fn loans(table: &mut Table<'_>) {
    let (pool, home, other) = (table.fixture.pool(), table.fixture.stream(), table.fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(64, &home).unwrap();
    drop(buffer.on(&other).unwrap());
    let fence = [cuEventRecord, cuStreamWaitEvent];
    let mut loan = table.row("Buffer::on (another stream)", &fence, || buffer.on(&other).unwrap());
    none! { table:
        "Loan::len" => loan.len();
        "Loan::is_empty" => loan.is_empty();
        "Loan::as_raw" => loan.as_raw();
        "Loan::as_slice" => loan.as_slice().len();
        "Loan::as_mut_slice" => loan.as_mut_slice().len();
    }
    table.row("drop of Loan (another stream)", &fence, || drop(loan));
    let loan = table.row("Buffer::read_on (another stream)", &fence, || buffer.read_on(&other).unwrap());
    none! { table:
        "SharedLoan::len" => loan.len();
        "SharedLoan::is_empty" => loan.is_empty();
        "SharedLoan::as_raw" => loan.as_raw();
        "SharedLoan::as_slice" => loan.as_slice().len();
    }
    table.row("drop of SharedLoan (another stream)", &fence, || drop(loan));
    none! { table:
        "Buffer::on" => drop(buffer.on(&home).unwrap());
        "Buffer::read_on" => drop(buffer.read_on(&home).unwrap());
    }
    let buffer = table.row("Buffer::move_to", &[], || buffer.move_to(&home).unwrap());
    drop(table.row("Buffer::move_to (another stream)", &fence, || buffer.move_to(&other).unwrap()));
}

fn errors(table: &mut Table<'_>) {
    let stream = table.fixture.stream();
    table.fixture.sim().fail(cuStreamQuery, 0, cupool_sim::CUresult::CUDA_ERROR_UNKNOWN);
    let error = stream.query().unwrap_err();
    let Error::Driver(driver) = error else { panic!("{error:?}") };
    none! { table:
        "Error::code" => error.code();
        "Error::is_sticky" => error.is_sticky();
        "Error::hint" => error.hint();
        "DriverError::code" => driver.code();
        "DriverError::call" => driver.call();
        "release_failures" => release_failures();
        "recent_release_failures" => forget(recent_release_failures());
        // Other tests of this process may have set one.
        "set_release_hook" => cupool::set_release_hook(cupool::set_release_hook(None));
    }
}
