//! What is shared with other processes.

use cupool::{
    MemHandleTypes, MemPoolProperties,
    ipc::{EventHandle, ExportedPointer, FabricHandle, ImportedPool, InterprocessEvent},
};

use super::*;

pub(super) fn sharing(table: &mut Table<'_>) {
    let (fixture, context) = (table.fixture, table.fixture.context());
    let (stream, other) = (fixture.stream(), fixture.stream());
    let types = MemHandleTypes::POSIX_FD.union(MemHandleTypes::FABRIC);
    let pool = fixture.pool_with(MemPoolProperties::new().handle_types(types));
    let file = table.row("MemPool::export_fd", &[EXCHANGE, cuMemPoolExportToShareableHandle, EXCHANGE], || {
        pool.export_fd().unwrap()
    });
    let refused = [EXCHANGE, cuMemPoolExportToShareableHandle, EXCHANGE];
    table.row("MemPool::export_fabric (no fabric)", &refused, || pool.export_fabric().unwrap_err());
    let within = |call: Symbol| [cuCtxPushCurrent, EXCHANGE, call, EXCHANGE, cuCtxPopCurrent];
    let buffer = pool.alloc_from_host(&[1_u32; 64], &stream).unwrap();
    stream.synchronize().unwrap();
    let pointer = table.row("Buffer::export", &within(cuMemPoolExportPointer), || buffer.export().unwrap());
    let from = [
        &[cuDeviceGetAttribute, cuCtxPushCurrent, cuStreamCreateWithPriority, cuCtxPopCurrent][..],
        &[cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent],
        &within(cuMemPoolImportFromShareableHandle),
    ]
    .concat();
    let imported = table.row("ImportedPool::from_fd", &from, || ImportedPool::from_fd(&context, &file).unwrap());
    // As it is written, with the driver's part empty.
    let mut bytes = [0; FabricHandle::BYTES];
    bytes[..12].copy_from_slice(b"cupoolXF\x01\0\0\0");
    let handle = table.row("FabricHandle::from_bytes", &[], || FabricHandle::from_bytes(&bytes).unwrap());
    let no_fabric = [&from[..], &[cuStreamDestroy]].concat();
    table.row("ImportedPool::from_fabric (no fabric)", &no_fabric, || {
        ImportedPool::from_fabric(&context, &handle).unwrap_err()
    });
    imports(table, &imported, &pointer, [&stream, &other]);
    none! { table:
        "FabricHandle::to_bytes" => assert_eq!(handle.to_bytes(), bytes);
        "ExportedPointer::to_bytes" => pointer.to_bytes();
        "ExportedPointer::from_bytes" => ExportedPointer::from_bytes(&pointer.to_bytes()).unwrap();
        "ExportedPointer::len" => pointer.len();
        "ExportedPointer::is_empty" => pointer.is_empty();
        "ExportedPointer::element_size" => pointer.element_size();
        "ImportedPool::as_raw" => imported.as_raw();
        "ImportedPool::device" => imported.device();
        "ImportedPool::driver" => imported.driver();
    }
    // The device has released all that was imported.
    while imported.imports() != Ok(0) {}
    let mark = [cuStreamIsCapturing, cuEventRecord, EXCHANGE, cuEventQuery, EXCHANGE];
    let ends = [&mark[..], &[EXCHANGE, cuMemPoolDestroy, EXCHANGE, cuEventDestroy, cuStreamDestroy]].concat();
    table.row("drop of ImportedPool (it had to wait)", &ends, || drop(imported));
    interprocess_events(table);
}

fn imports(table: &mut Table<'_>, pool: &ImportedPool, pointer: &ExportedPointer, streams: [&Stream; 2]) {
    let [stream, other] = streams;
    // Their events are made when there is first need of them.
    stream.wait_for(other).unwrap();
    other.wait_for(stream).unwrap();
    let within = |call: Symbol| [cuCtxPushCurrent, EXCHANGE, call, EXCHANGE, cuCtxPopCurrent];
    let asked = within(cuPointerGetAttributes);
    let first = [&within(cuMemPoolImportPointer)[..], &asked].concat();
    // SAFETY: the buffer's stream has been waited for, and the buffer is freed on `stream`, where the last import is.
    let import = |stream| unsafe { pool.import::<u32, &Stream>(pointer, stream) }.unwrap();
    let mut one = table.row("ImportedPool::import", &first, || import(stream));
    let two = table.row("ImportedPool::import (again)", &asked, || import(other));
    none! { table:
        "ImportedPool::imports" => assert_eq!(pool.imports(), Ok(1));
        "ImportedBuffer::len" => one.len();
        "ImportedBuffer::is_empty" => one.is_empty();
        "ImportedBuffer::byte_len" => one.byte_len();
        "ImportedBuffer::as_raw" => one.as_raw();
        "ImportedBuffer::home" => one.home().as_raw();
        "ImportedBuffer::stream" => one.stream().as_raw();
        "ImportedBuffer::as_slice" => one.as_slice().len();
        "ImportedBuffer::slice" => one.slice(1..).map(drop).unwrap();
        // SAFETY: nothing is done with the view.
        "ImportedBuffer::as_mut_slice" => unsafe { one.as_mut_slice() }.len();
    }
    one.to_vec().unwrap();
    let found = [cuStreamIsCapturing, EXCHANGE, cuEventQuery, EXCHANGE];
    let down = [&found[..], &[cuMemcpyDtoHAsync, cuEventRecord, EXCHANGE, cuEventSynchronize, EXCHANGE]].concat();
    table.row("ImportedBuffer::to_vec", &down, || one.to_vec().unwrap());
    table.row("ImportedBuffer::copy_to_host", &down, || one.copy_to_host(&mut [0; 64]).unwrap());
    let fence = [cuEventRecord, cuStreamWaitEvent];
    let leave = [&[cuStreamIsCapturing][..], &fence].concat();
    table.row("drop of ImportedBuffer (there are others)", &leave, || drop(two));
    let last = [
        &[cuStreamIsCapturing, cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent][..],
        &fence,
        &[EXCHANGE, cuMemFreeAsync, EXCHANGE],
        &fence,
    ];
    table.row("ImportedBuffer::free (there were others)", &last.concat(), || one.free().unwrap());
    stream.synchronize().unwrap();
    let query = [EXCHANGE, cuStreamQuery, EXCHANGE];
    table.row("ImportedPool::imports (something was released)", &query, || pool.imports().unwrap());
    while pool.imports() != Ok(0) {}
    let one = import(stream);
    let free = [&[cuStreamIsCapturing, EXCHANGE, cuMemFreeAsync, EXCHANGE][..], &fence].concat();
    table.row("drop of ImportedBuffer", &free, || drop(one));
}

fn interprocess_events(table: &mut Table<'_>) {
    let context = table.fixture.context();
    let create = [cuDeviceGetAttribute, cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    let event = table.row("InterprocessEvent::new", &create, || InterprocessEvent::new(&context).unwrap());
    let export = [cuCtxPushCurrent, EXCHANGE, cuIpcGetEventHandle, EXCHANGE, cuCtxPopCurrent];
    let handle = table.row("InterprocessEvent::export", &export, || event.export().unwrap());
    let open = [cuDeviceGetAttribute, cuCtxPushCurrent, EXCHANGE, cuIpcOpenEventHandle, EXCHANGE, cuCtxPopCurrent];
    // SAFETY: the event outlives what would be opened.
    let open_own = || unsafe { InterprocessEvent::open(&context, &handle) }.unwrap_err();
    table.row("InterprocessEvent::open (its own)", &open, open_own);
    none! { table:
        "EventHandle::to_bytes" => handle.to_bytes();
        "EventHandle::from_bytes" => EventHandle::from_bytes(&handle.to_bytes()).unwrap();
    }
    table.row("drop of InterprocessEvent", &[cuEventDestroy], || drop(event));
}
