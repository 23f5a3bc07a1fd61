//! Default streams, managed memory, and what is asked about addresses.

use cupool::{ContextRef, LegacyStream, ManagedBuffer, MemLocation, PinnedBuffer, Registered};

use super::*;
use crate::managed::managed_pool;

const fn inside(call: Symbol) -> [Symbol; 3] {
    [cuCtxPushCurrent, call, cuCtxPopCurrent]
}

/// A fence in the context of a default stream.
const FENCE: [Symbol; 4] = [cuCtxPushCurrent, cuEventRecord, cuStreamWaitEvent, cuCtxPopCurrent];

pub(super) fn default_streams(table: &mut Table<'_>) {
    let (context, pool, home) = (table.fixture.context(), table.fixture.pool(), table.fixture.stream());
    let event = Event::new(&context).unwrap();
    let stream = table.row("DefaultStream::new", &[], || LegacyStream::new(&context).unwrap());
    none! { table:
        "DefaultStream::as_raw" => stream.as_raw();
        "DefaultStream::context" => stream.context().as_raw();
        "DefaultStream::driver" => stream.driver();
    }
    // SAFETY: the context outlives what borrows it.
    let borrowed = unsafe { ContextRef::borrow_raw(context.device(), context.as_raw()) };
    let retain = [cuDevicePrimaryCtxRetain];
    drop(table.row("DefaultStream::new (a borrowed context)", &retain, || LegacyStream::new(&borrowed).unwrap()));
    table.row("DefaultStream::synchronize", &inside(cuStreamSynchronize), || stream.synchronize().unwrap());
    table.row("DefaultStream::query", &inside(cuStreamQuery), || stream.query().unwrap());
    table.row("DefaultStream::record", &inside(cuEventRecord), || stream.record(&event).unwrap());
    table.row("DefaultStream::wait", &inside(cuStreamWaitEvent), || stream.wait(&event).unwrap());
    stream.wait_for(&home).unwrap();
    home.wait_for_default(&stream).unwrap();
    table.row("DefaultStream::wait_for", &FENCE, || stream.wait_for(&home).unwrap());
    table.row("Stream::wait_for_default", &FENCE, || home.wait_for_default(&stream).unwrap());
    table.row("Stream::ensure_of_context", &[cuStreamGetCtx], || home.ensure_of_context().unwrap());
    let mut buffer = pool.alloc::<u32, _>(64, &home).unwrap();
    let loan = table.row("Buffer::on_default", &FENCE, || buffer.on_default(&stream).unwrap());
    none! { table:
        "DefaultLoan::len" => loan.len();
        "DefaultLoan::is_empty" => loan.is_empty();
        "DefaultLoan::as_raw" => loan.as_raw();
    }
    table.row("drop of DefaultLoan", &FENCE, || drop(loan));
    let loan = table.row("Buffer::read_on_default", &FENCE, || buffer.read_on_default(&stream).unwrap());
    none! { table:
        "SharedDefaultLoan::len" => loan.len();
        "SharedDefaultLoan::is_empty" => loan.is_empty();
        "SharedDefaultLoan::as_raw" => loan.as_raw();
    }
    table.row("drop of SharedDefaultLoan", &FENCE, || drop(loan));
    table.row("drop of DefaultStream (others wait for it)", &[cuEventDestroy], || drop(stream));
    let stream = LegacyStream::new(&context).unwrap();
    table.row("drop of DefaultStream", &[], || drop(stream));
}

/// The two of them are asked whether they share managed memory with the host.
const EVERY_DEVICE: [cupool_sim::Symbol; 3] = [cuDeviceGetCount, cuDeviceGetAttribute, cuDeviceGetAttribute];

pub(super) fn managed(table: &mut Table<'_>) {
    let context = table.fixture.context();
    let [home, other] = [(), ()].map(|()| Stream::new(&context).unwrap());
    let default = LegacyStream::new(&context).unwrap();
    let device = context.device();
    let create = [
        &[cuDeviceGetAttribute][..],
        &EVERY_DEVICE,
        &[cuCtxPushCurrent, cuEventCreate],
        &[EXCHANGE, cuMemAllocManaged, EXCHANGE, cuCtxPopCurrent],
    ];
    let alloc = || ManagedBuffer::<u32, _>::alloc(64, &home).unwrap();
    let mut buffer = table.row("ManagedBuffer::alloc", &create.concat(), alloc);
    none! { table:
        "ManagedBuffer::as_mut_slice" => buffer.as_mut_slice().len();
        "ManagedBuffer::slice_mut" => buffer.slice_mut(1..).map(drop).unwrap();
        "ManagedBuffer::on" => drop(buffer.on(&home).unwrap());
    }
    let look = [cuStreamIsCapturing, cuStreamSynchronize];
    table.row("ManagedBuffer::as_host_slice", &look, || buffer.as_host_slice().map(drop).unwrap());
    table.row("ManagedBuffer::as_host_mut_slice", &look, || buffer.as_host_mut_slice().map(drop).unwrap());
    drop(buffer.on(&other).unwrap());
    drop(buffer.on_default(&default).unwrap());
    drop(table.row("ManagedBuffer::on (another stream)", &FENCE[1..3], || buffer.on(&other).unwrap()));
    drop(table.row("ManagedBuffer::on_default", &FENCE, || buffer.on_default(&default).unwrap()));

    let prefetch =
        [&[cuStreamIsCapturing, cuCtxPushCurrent, EXCHANGE][..], &[cuMemPrefetchAsync_v2, EXCHANGE, cuCtxPopCurrent]]
            .concat();
    table.row("ManagedBuffer::prefetch", &prefetch, || buffer.prefetch(.., MemLocation::Host).unwrap());
    let told = [cuCtxPushCurrent, EXCHANGE, cuMemAdvise_v2, EXCHANGE, cuCtxPopCurrent];
    table.row("ManagedBuffer::set_read_mostly", &told, || buffer.set_read_mostly(.., true).unwrap());
    table.row("ManagedBuffer::set_preferred_location", &told, || buffer.set_preferred_location(.., None).unwrap());
    let accessed = || buffer.set_accessed_by(.., MemLocation::Device(device), true).unwrap();
    table.row("ManagedBuffer::set_accessed_by", &told, accessed);
    let asked = [cuCtxPushCurrent, EXCHANGE, cuMemRangeGetAttribute, EXCHANGE, cuCtxPopCurrent];
    table.row("ManagedBuffer::is_read_mostly", &asked, || buffer.is_read_mostly(..).unwrap());
    let twice = [asked, asked].concat();
    table.row("ManagedBuffer::preferred_location", &twice, || buffer.preferred_location(..).unwrap());
    table.row("ManagedBuffer::last_prefetch_location", &twice, || buffer.last_prefetch_location(..).unwrap());
    let counted = [&[cuDeviceGetCount][..], &asked].concat();
    table.row("ManagedBuffer::accessed_by", &counted, || forget(buffer.accessed_by(..).unwrap()));

    let mut buffer = table.row("ManagedBuffer::move_to", &[], || buffer.move_to(&home).unwrap());
    buffer = table
        .row("ManagedBuffer::move_to (another stream)", &FENCE[1..3], || buffer.move_to(&other).unwrap())
        .move_to(&home)
        .unwrap();
    let retire = [cuStreamIsCapturing, cuEventRecord];
    table.row("drop of ManagedBuffer", &retire, || drop(buffer));
    home.synchronize().unwrap();
    let reuse = [&[cuDeviceGetAttribute][..], &EVERY_DEVICE, &[EXCHANGE, cuEventQuery, EXCHANGE]].concat();
    let buffer = table.row("ManagedBuffer::alloc (reused)", &reuse, alloc);
    table.row("ManagedBuffer::free", &retire, || buffer.free().unwrap());
    let free = [
        &[cuCtxPushCurrent, EXCHANGE, cuEventSynchronize, EXCHANGE][..],
        &[EXCHANGE, cuMemFree, EXCHANGE, cuEventDestroy, cuCtxPopCurrent],
    ];
    table.row("Context::trim_managed", &free.concat(), || context.trim_managed().unwrap());

    let buffer = managed_pool(device).alloc::<u32, _>(64, &home).unwrap();
    let check = [&[EXCHANGE, cuPointerGetAttribute, EXCHANGE][..], &EVERY_DEVICE].concat();
    let buffer = table.row("Buffer::into_managed", &check, || buffer.into_managed().unwrap());
    table.row("ManagedBuffer::free (of a pool)", &[cuMemFreeAsync], || buffer.free().unwrap());
}

pub(super) fn pointers_and_peers(table: &mut Table<'_>) {
    let (context, pool) = (table.fixture.context(), table.fixture.pool());
    let [home, other] = [(), ()].map(|()| Stream::new(&context).unwrap());
    let mut buffer = pool.alloc_zeroed::<u32, _>(64, &home).unwrap();
    let ask = [cuInit, EXCHANGE, cuPointerGetAttributes, EXCHANGE];
    // SAFETY: it is the address of no memory of the driver's.
    table.row("Driver::pointer_info", &ask, || unsafe { context.driver().pointer_info(8) }.unwrap());
    table.row("DeviceSlice::pointer_info", &ask, || buffer.as_slice().pointer_info().unwrap());
    let pinned = PinnedBuffer::<u8>::new(&context, 9).unwrap();
    let registered = Registered::from_vec(&context, vec![1_u8; 9]).unwrap();
    let address = inside(cuMemHostGetDevicePointer);
    table.row("PinnedBuffer::device_address", &address, || pinned.device_address().unwrap());
    table.row("Registered::device_address", &address, || registered.device_address().unwrap());
    let near = pool.alloc_zeroed::<u32, _>(64, &home).unwrap();
    let far = pool.alloc_zeroed::<u32, _>(64, &other).unwrap();
    buffer.copy_from(far.as_slice()).unwrap();
    let mut view = buffer.as_mut_slice();
    let peer = [cuMemcpyPeerAsync];
    table.row("DeviceSliceMut::copy_from_peer", &peer, || view.copy_from_peer(near.as_slice()).unwrap());
    let fenced = [cuEventRecord, cuStreamWaitEvent, cuMemcpyPeerAsync, cuEventRecord, cuStreamWaitEvent];
    let copy = || view.copy_from_peer(far.as_slice()).unwrap();
    table.row("DeviceSliceMut::copy_from_peer (another home)", &fenced, copy);
}
