//! Page-locked host memory.

use cupool::{PinnedBuffer, Registered};

use super::*;

pub(super) fn page_locked(table: &mut Table<'_>) {
    let (context, pool, stream) = (table.fixture.context(), table.fixture.pool(), table.fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(64, &stream).unwrap();
    let create = [cuCtxPushCurrent, cuEventCreate, EXCHANGE, cuMemHostAlloc, EXCHANGE, cuCtxPopCurrent];
    let mut host = table.row("PinnedBuffer::new", &create, || PinnedBuffer::<u32>::new(&context, 64).unwrap());
    let other =
        table.row("PinnedBuffer::from_slice", &create, || PinnedBuffer::from_slice(&context, &[1_u8; 9]).unwrap());
    none! { table:
        "PinnedBuffer::len" => host.len();
        "PinnedBuffer::is_empty" => host.is_empty();
        "PinnedBuffer::as_raw" => host.as_raw();
        "PinnedBuffer::as_slice" => host.as_slice().map(drop).unwrap();
        "PinnedBuffer::as_mut_slice" => host.as_mut_slice().map(drop).unwrap();
        "drop of PinnedBuffer" => drop(other);
    }
    let up = [cuMemcpyHtoDAsync, cuEventRecord];
    table.row("Buffer::copy_from_pinned", &up, || buffer.copy_from_pinned(&host).unwrap());
    {
        let other = table.fixture.stream();
        let mut theirs = pool.alloc::<u32, _>(64, &other).unwrap();
        let up = [cuStreamWaitEvent, cuMemcpyHtoDAsync, cuEventRecord];
        table.row("Buffer::copy_from_pinned (after a copy on another stream)", &up, || {
            theirs.copy_from_pinned(&host).unwrap();
        });
        buffer.copy_from_pinned(&host).unwrap();
    }
    table.row("DeviceSliceMut::copy_from_pinned", &up, || buffer.as_mut_slice().copy_from_pinned(&host).unwrap());
    let wait = [EXCHANGE, cuEventSynchronize, EXCHANGE];
    table.row("PinnedBuffer::as_slice (a copy reads it)", &[], || host.as_slice().map(drop).unwrap());
    table.row("PinnedBuffer::as_mut_slice (a copy reads it)", &wait, || host.as_mut_slice().map(drop).unwrap());
    let down = [cuMemcpyDtoHAsync, cuEventRecord];
    table.row("Buffer::copy_to_pinned", &down, || buffer.copy_to_pinned(&mut host).unwrap());
    table.row("PinnedBuffer::as_slice (a copy writes it)", &wait, || host.as_slice().map(drop).unwrap());
    table.row("DeviceSlice::copy_to_pinned", &down, || buffer.as_slice().copy_to_pinned(&mut host).unwrap());
    table.row("drop of PinnedBuffer (a copy writes it)", &[], || drop(host));
    stream.synchronize().unwrap();
    let reuse = [EXCHANGE, cuEventQuery, EXCHANGE];
    drop(table.row("PinnedBuffer::new (reused)", &reuse, || PinnedBuffer::<u32>::new(&context, 64).unwrap()));
    let free = [&wait[..], &[EXCHANGE, cuMemFreeHost, EXCHANGE, cuEventDestroy]].concat();
    let trim = [&[cuCtxPushCurrent][..], &free, &free, &[cuCtxPopCurrent]].concat();
    table.row("Context::trim_pinned", &trim, || context.trim_pinned().unwrap());

    let register = [cuCtxPushCurrent, EXCHANGE, cuMemHostRegister, EXCHANGE, cuCtxPopCurrent];
    let unregister = [cuCtxPushCurrent, EXCHANGE, cuMemHostUnregister, EXCHANGE, cuCtxPopCurrent];
    let vector = || Registered::from_vec(&context, vec![1_u8; 9]).unwrap();
    let memory = table.row("Registered::from_vec", &register, vector);
    table.row("Registered::into_vec", &unregister, || memory.into_vec().unwrap());
    let boxed = vec![1_u8; 9].into_boxed_slice();
    // SAFETY: a boxed slice stays where it is, and the registration is not forgotten.
    let memory = table.row("Registered::new", &register, || unsafe { Registered::new(&context, boxed) }.unwrap());
    table.row("drop of Registered", &unregister, || drop(memory));
}
