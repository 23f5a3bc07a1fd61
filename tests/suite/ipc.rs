//! Pools, buffers and events shared between processes, as far as one process can show it: it imports its own. What only
//! several can show is in `tests/share.rs`, how imports live and end in `ipc_imports.rs`.
#![cfg(unix)]

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use cupool::{
    Buffer, Device, Error, MemHandleTypes, MemPool, MemPoolProperties, Stream,
    ipc::{EventHandle, ExportedPointer, FabricHandle, ImportedBuffer, ImportedPool, InterprocessEvent},
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::{Fixture, POOL_SIZE};

pub(crate) const LEN: usize = 1000;

pub(crate) fn exportable(fixture: &Fixture) -> MemPool {
    let pool = fixture.pool_with(MemPoolProperties::new().handle_types(MemHandleTypes::POSIX_FD));
    // Before that the driver exports none of its pointers.
    drop(pool.export_fd().unwrap());
    pool
}

pub(crate) fn import_own(fixture: &Fixture, pool: &MemPool) -> ImportedPool {
    ImportedPool::from_fd(&fixture.context(), pool.export_fd().unwrap()).unwrap()
}

/// A buffer that holds `value`, and how it is described to others. The host has waited for it.
pub(crate) fn exported<'a>(
    pool: &MemPool,
    stream: &'a Stream,
    value: u32,
) -> (Buffer<u32, &'a Stream>, ExportedPointer) {
    let buffer = pool.alloc_from_host(&[value; LEN], stream).unwrap();
    stream.synchronize().unwrap();
    let pointer = buffer.export().unwrap();
    (buffer, pointer)
}

/// What the safety of imports asks for is seen to in each test by waiting for the streams on the host.
pub(crate) fn import<'a>(
    pool: &ImportedPool,
    pointer: &ExportedPointer,
    stream: &'a Stream,
) -> ImportedBuffer<u32, &'a Stream> {
    // SAFETY: the tests wait for the allocation before, and for the release before they free the buffer.
    unsafe { pool.import(pointer, stream) }.unwrap()
}

/// Until the device has freed what was released: the pool's own stream is a little later than those that were waited
/// for.
#[track_caller]
pub(crate) fn expect_no_imports(pool: &ImportedPool) {
    let since = Instant::now();
    while pool.imports() != Ok(0) {
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}", pool.imports());
        thread::yield_now();
    }
}

#[test]
fn what_was_exported_is_imported_read_and_written() {
    let fixture = Fixture::new();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 7);
    assert_eq!((pointer.len(), pointer.element_size()), (LEN as u64, 4));
    let mut view = import(&imported, &pointer, &other);
    assert_eq!((view.len(), view.byte_len(), view.is_empty()), (LEN, 4 * LEN, false));
    assert_ne!(view.as_raw(), 0);
    assert_eq!(view.to_vec().unwrap(), [7; LEN]);
    // SAFETY: the stream of the buffer has been waited for, and nothing is done with it meanwhile.
    unsafe { view.as_mut_slice() }.slice(..LEN / 2).unwrap().fill(8).unwrap();
    view.free().unwrap();
    other.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [[8; LEN / 2], [7; LEN / 2]].concat());
    expect_no_imports(&imported);
}

#[test]
fn i8_memory_of_a_pool_that_was_not_made_for_it_cannot_be_exported_and_there_is_no_older_way() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u32, _>(LEN, &stream).unwrap();
    assert_eq!(pool.export_fd().map(drop), Err(Error::NotShareable));
    assert_eq!(pool.export_fabric().map(drop), Err(Error::NotShareable));
    assert_eq!(buffer.export(), Err(Error::NotShareable));
    let default = MemPool::default_of(&fixture.device()).unwrap();
    assert_eq!(default.export_fd().map(drop), Err(Error::NotShareable));
    let files = exportable(&fixture);
    assert_eq!(files.export_fabric().map(drop), Err(Error::NotShareable));
    assert!(Symbol::ALL.iter().all(|entry| !entry.row().starts_with("cuIpc") || entry.row().contains("EventHandle")));
}

#[test]
fn i10_a_descriptor_is_the_callers_alone_and_closed_on_exec() {
    let fixture = Fixture::new();
    let pool = exportable(&fixture);
    let (first, second) = (pool.export_fd().unwrap(), pool.export_fd().unwrap());
    assert_ne!(first.as_raw_fd(), second.as_raw_fd());
    let flags = |file: &OwnedFd| {
        // SAFETY: the descriptor is open, and the call only reads its flags.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) }
    };
    assert_eq!(flags(&first) & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    let imported = ImportedPool::from_fd(&fixture.context(), &first).unwrap();
    // The import has not closed it, and needs it no more.
    assert!(flags(&first) >= 0);
    drop((first, second));
    let stream = fixture.stream();
    let (buffer, pointer) = exported(&pool, &stream, 1);
    assert_eq!(import(&imported, &pointer, &stream).to_vec().unwrap(), [1; LEN]);
    stream.synchronize().unwrap();
    drop(buffer);
}

#[test]
fn i10_a_descriptor_of_something_else_is_refused() {
    let fixture = Fixture::new();
    let null = File::open("/dev/null").unwrap();
    let error = ImportedPool::from_fd(&fixture.context(), &null).unwrap_err();
    assert!(matches!(error, Error::Driver(_)), "{error:?}");
}

#[test]
fn i12_descriptors_that_do_not_hold_are_refused() {
    let fixture = Fixture::new();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 1);
    let bytes = pointer.to_bytes();
    assert_eq!(ExportedPointer::from_bytes(&bytes), Ok(pointer));
    for wrong in [&bytes[1..], &bytes[..bytes.len() - 1], &[], &[0; ExportedPointer::BYTES]] {
        assert!(matches!(ExportedPointer::from_bytes(wrong), Err(Error::MalformedHandle(_))));
    }
    // SAFETY: if it were imported, it would be released at once.
    let other_type = unsafe { imported.import::<u16, _>(&pointer, &stream) };
    assert_eq!(other_type.map(drop), Err(Error::ElementSize { exported: 4, imported: 2 }));
    // One element more than there are, in memory that is no larger than it has to be.
    let mut longer = bytes;
    longer[20..28].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let longer = ExportedPointer::from_bytes(&longer).unwrap();
    assert_eq!(longer.len(), 1 << 40);
    // SAFETY: as above.
    let beyond = unsafe { imported.import::<u32, _>(&longer, &stream) };
    assert!(
        matches!(beyond, Err(Error::BeyondAllocation { bytes: 0x400_0000_0000, allocated }) if allocated >= 4 * LEN)
    );
    // Of no pool: the driver's own part is wrong.
    let mut unknown = bytes;
    unknown[28..].fill(0x5a);
    let unknown = ExportedPointer::from_bytes(&unknown).unwrap();
    // SAFETY: as above.
    let unknown = unsafe { imported.import::<u32, _>(&unknown, &stream) };
    assert!(matches!(unknown, Err(Error::Driver(_))), "{unknown:?}");
    stream.synchronize().unwrap();
    expect_no_imports(&imported);
    drop(buffer);
}

#[test]
fn i12_a_descriptor_of_one_element_too_many_is_refused() {
    // A real driver may round what it says up.
    let fixture = Fixture::simulated();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 1);
    let mut longer = pointer.to_bytes();
    longer[20..28].copy_from_slice(&(LEN as u64 + 1).to_le_bytes());
    let longer = ExportedPointer::from_bytes(&longer).unwrap();
    // SAFETY: if it were imported, it would be released at once.
    let beyond = unsafe { imported.import::<u32, _>(&longer, &stream) };
    assert_eq!(beyond.map(drop), Err(Error::BeyondAllocation { bytes: 4 * LEN + 4, allocated: 4 * LEN }));
    stream.synchronize().unwrap();
    expect_no_imports(&imported);
    drop(buffer);
}

#[test]
fn i12_a_buffer_of_another_pool_is_not_imported() {
    let fixture = Fixture::new();
    let (pool, another, stream) = (exportable(&fixture), exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &another);
    let (buffer, pointer) = exported(&pool, &stream, 1);
    // SAFETY: if it were imported, it would be released at once.
    let refused = unsafe { imported.import::<u32, _>(&pointer, &stream) };
    assert!(matches!(refused, Err(Error::Driver(_))), "{refused:?}");
    assert_eq!(imported.imports(), Ok(0));
    drop(buffer);
}

#[test]
fn i12_an_event_is_not_opened_in_its_own_process() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let event = InterprocessEvent::new(&context).unwrap();
    let handle = EventHandle::from_bytes(&event.export().unwrap().to_bytes()).unwrap();
    // SAFETY: the event outlives what would be opened.
    assert_eq!(unsafe { InterprocessEvent::open(&context, &handle) }.map(drop), Err(Error::OwnEvent));
    // Itself it is an event like any other.
    let (first, second) = (fixture.stream(), fixture.stream());
    event.record(&first).unwrap();
    second.wait(&event).unwrap();
    event.synchronize().unwrap();
    assert_eq!(event.query(), Ok(true));
    let bytes = handle.to_bytes();
    for wrong in [&bytes[1..], &bytes[..bytes.len() - 1], &[]] {
        assert!(matches!(EventHandle::from_bytes(wrong), Err(Error::MalformedHandle(_))));
    }
    // A handle of one kind is none of another.
    assert!(matches!(FabricHandle::from_bytes(&bytes), Err(Error::MalformedHandle(_))));
}

#[test]
fn events_that_cannot_be_shared_are_said_to_be_so() {
    use cupool::cuda_sys::CUdevice_attribute;
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;
    let fixture = Fixture::with(Simulator::builder().attribute(attribute, 0));
    let refused = InterprocessEvent::new(&fixture.context()).map(drop);
    assert_eq!(refused, Err(Error::InterprocessEventsUnsupported { device: 0 }));
    assert_eq!(fixture.sim().count(Symbol::cuEventCreate), 0);
}

#[test]
fn h1_a_buffer_without_elements_is_exported_and_imported_without_a_call() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let buffer = pool.alloc::<u32, _>(0, &stream).unwrap();
    fixture.expect_calls(&[], || {
        let pointer = ExportedPointer::from_bytes(&buffer.export().unwrap().to_bytes()).unwrap();
        assert!(pointer.is_empty());
        let view = import(&imported, &pointer, &stream);
        assert_eq!((view.len(), view.is_empty(), view.as_raw()), (0, true, 0));
        assert_eq!(view.to_vec().unwrap(), [0_u32; 0]);
        view.free().unwrap();
    });
}

#[test]
fn sharing_leaves_a_capture_of_another_thread_alone() {
    let fixture = Fixture::alone();
    let (pool, stream, captured) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let (buffer, pointer) = exported(&pool, &stream, 5);
    let context = fixture.context();
    // What is made in a context is made before: creating streams and events is nobody's to do during a capture.
    let imported = import_own(&fixture, &pool);
    drop(import(&imported, &pointer, &stream));
    stream.synchronize().unwrap();
    let event = InterprocessEvent::new(&context).unwrap();
    let functions = fixture.driver().functions();
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live, and the capture is ended below.
    let begun = unsafe {
        (functions.cuStreamBeginCapture.unwrap())(
            captured.as_raw(),
            cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        )
    };
    assert_eq!(begun, CUresult::CUDA_SUCCESS);
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(pool.export_fd().unwrap());
            assert_eq!(buffer.export().unwrap().len(), pointer.len());
            event.export().unwrap();
            drop(import(&imported, &pointer, &stream));
            imported.imports().unwrap();
        });
    });
    // SAFETY: as above.
    unsafe {
        let ended = (functions.cuStreamEndCapture.unwrap())(captured.as_raw(), &raw mut graph);
        assert_eq!(ended, CUresult::CUDA_SUCCESS);
        assert_eq!((functions.cuGraphDestroy.unwrap())(graph), CUresult::CUDA_SUCCESS);
    }
    stream.synchronize().unwrap();
    drop(buffer);
}

#[test]
fn a_pool_is_shared_by_a_fabric_handle_where_there_is_a_fabric() {
    let fixture = Fixture::with(Simulator::builder().fabric(true));
    let export = MemHandleTypes::POSIX_FD.union(MemHandleTypes::FABRIC);
    let (pool, stream) = (fixture.pool_with(MemPoolProperties::new().handle_types(export)), fixture.stream());
    let handle = FabricHandle::from_bytes(&pool.export_fabric().unwrap().to_bytes()).unwrap();
    let imported = ImportedPool::from_fabric(&fixture.context(), &handle).unwrap();
    let (buffer, pointer) = exported(&pool, &stream, 5);
    assert_eq!(import(&imported, &pointer, &stream).to_vec().unwrap(), [5; LEN]);
    stream.synchronize().unwrap();
    drop(buffer);
}

#[test]
fn a_fabric_handle_is_had_or_refused_by_the_driver() {
    let fixture = Fixture::new();
    let properties = MemPoolProperties::new().max_size(POOL_SIZE).handle_types(MemHandleTypes::FABRIC);
    // Where there is no fabric the driver may refuse either.
    let exported = MemPool::with_properties(&fixture.device(), &properties)
        .and_then(|pool| pool.export_fabric())
        .and_then(|handle| ImportedPool::from_fabric(&fixture.context(), &handle));
    if let Err(error) = exported {
        assert!(matches!(error, Error::Driver(_)), "{error:?}");
    }
}

#[test]
fn the_handle_types_of_a_device_say_what_can_be_exported() {
    let fixture = Fixture::new();
    let device: Device = fixture.device();
    let supported = MemHandleTypes::from_bits(device.mem_pool_supported_handle_types().unwrap());
    assert!(supported.contains(MemHandleTypes::POSIX_FD));
    drop(exportable(&fixture).export_fd().unwrap());
}

#[test]
fn a1_without_an_entry_only_what_needs_it_fails_and_names_it() {
    for missing in [
        Symbol::cuMemPoolExportToShareableHandle,
        Symbol::cuMemPoolImportFromShareableHandle,
        Symbol::cuMemPoolExportPointer,
        Symbol::cuMemPoolImportPointer,
        Symbol::cuPointerGetAttributes,
        Symbol::cuIpcGetEventHandle,
        Symbol::cuIpcOpenEventHandle,
    ] {
        let fixture = Fixture::simulated();
        let driver = crate::missing_entries::without(&fixture, |symbol| symbol == missing).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let whole = fixture.context();
        let stream = Stream::new(&context).unwrap();
        let properties = MemPoolProperties::new().max_size(POOL_SIZE).handle_types(MemHandleTypes::POSIX_FD);
        let pool = MemPool::with_properties(&context.device(), &properties).unwrap();
        let buffer = pool.alloc_from_host(&[1_u32], &stream).unwrap();
        let event = InterprocessEvent::new(&context).unwrap();
        let handle = InterprocessEvent::new(&whole).unwrap().export().unwrap();
        let share = || {
            let imported = ImportedPool::from_fd(&context, pool.export_fd()?)?;
            // SAFETY: the buffer is freed on the same stream.
            let view = unsafe { imported.import::<u32, _>(&buffer.export()?, &stream) }?;
            view.to_vec()?;
            view.free()?;
            event.export()?;
            // SAFETY: the event is in this process, and not opened.
            match unsafe { InterprocessEvent::open(&context, &handle) } {
                Err(Error::OwnEvent) => Ok(()),
                other => other.map(drop),
            }
        };
        assert_eq!(share(), Err(Error::Unsupported(missing)));
        drop(buffer);
        stream.synchronize().unwrap();
    }
}
