//! Copies between device memory, and with ordinary host memory.

use super::*;

pub(super) fn copies(table: &mut Table<'_>) {
    let (pool, stream, other) = (table.fixture.pool(), table.fixture.stream(), table.fixture.stream());
    let source = pool.alloc_zeroed::<u32, _>(64, &stream).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(64, &stream).unwrap();
    table.row("Buffer::copy_from", &[cuMemcpyDtoDAsync], || target.copy_from(source.as_slice()).unwrap());
    let mut view = target.as_mut_slice();
    table.row("DeviceSliceMut::copy_from", &[cuMemcpyDtoDAsync], || view.copy_from(source.as_slice()).unwrap());
    let mut far = pool.alloc_zeroed::<u32, _>(64, &other).unwrap();
    far.copy_from(source.as_slice()).unwrap();
    let fenced = [cuEventRecord, cuStreamWaitEvent, cuMemcpyDtoDAsync, cuEventRecord, cuStreamWaitEvent];
    table.row("Buffer::copy_from (another home)", &fenced, || far.copy_from(source.as_slice()).unwrap());

    let first = [
        &[cuStreamIsCapturing, cuCtxPushCurrent, cuEventCreate][..],
        &[EXCHANGE, cuMemHostAlloc, EXCHANGE, cuCtxPopCurrent],
        &[cuMemcpyHtoDAsync, cuEventRecord],
    ];
    table.row("Buffer::copy_from_host (the first time)", &first.concat(), || target.copy_from_host(&[1; 64]).unwrap());
    let found = [cuStreamIsCapturing, EXCHANGE, cuEventQuery, EXCHANGE];
    let up = [&found[..], &[cuMemcpyHtoDAsync, cuEventRecord]].concat();
    let down = [&found[..], &[cuMemcpyDtoHAsync, cuEventRecord, EXCHANGE, cuEventSynchronize, EXCHANGE]].concat();
    let settled = || stream.synchronize().unwrap();
    settled();
    table.row("Buffer::copy_from_host", &up, || target.copy_from_host(&[1; 64]).unwrap());
    settled();
    table.row("DeviceSliceMut::copy_from_host", &up, || target.as_mut_slice().copy_from_host(&[1; 64]).unwrap());
    settled();
    table.row("Buffer::copy_to_host", &down, || target.copy_to_host(&mut [0; 64]).unwrap());
    table.row("DeviceSlice::copy_to_host", &down, || target.as_slice().copy_to_host(&mut [0; 64]).unwrap());
    table.row("Buffer::to_vec", &down, || target.to_vec().unwrap());
    table.row("DeviceSlice::to_vec", &down, || target.as_slice().to_vec().unwrap());
    let made = [&[cuMemAllocFromPoolAsync][..], &up].concat();
    drop(table.row("MemPool::alloc_from_host", &made, || pool.alloc_from_host(&[1_u8; 64], &stream).unwrap()));
    large_copies(table, &pool, &stream);
}

fn large_copies(table: &mut Table<'_>, pool: &MemPool, stream: &Stream) {
    let mut host = vec![1_u8; 4 << 20];
    let mut buffer = pool.alloc::<u8, _>(host.len(), stream).unwrap();
    let ask = [EXCHANGE, cuPointerGetAttributes, EXCHANGE];
    let calls =
        |copy| [&[cuStreamIsCapturing, cuDeviceGetAttribute][..], &ask, &ask, &[copy, cuStreamSynchronize]].concat();
    let copy = || buffer.copy_from_host(&host).unwrap();
    table.row("Buffer::copy_from_host (4 MiB)", &calls(cuMemcpyHtoDAsync), copy);
    let copy = || buffer.copy_to_host(&mut host).unwrap();
    table.row("Buffer::copy_to_host (4 MiB)", &calls(cuMemcpyDtoHAsync), copy);
}
