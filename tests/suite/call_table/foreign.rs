//! Buffers over foreign memory, and the conversions that the other parts of the table leave out.

use cupool::{ForeignBuffer, PinnedBuffer};

use super::*;

pub(super) fn foreign(table: &mut Table<'_>) {
    let (pool, stream, other) = (table.fixture.pool(), table.fixture.stream(), table.fixture.stream());
    let context = stream.context();
    let memory = pool.alloc_zeroed::<u32, _>(64, &stream).unwrap();
    let address = memory.as_raw();
    // SAFETY: the memory outlives what is made of it.
    let new = || unsafe { ForeignBuffer::<u32, _, _>::new(address, 64, &stream, ()) }.map_err(|(error, ())| error);
    let create = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    let mut buffer = table.row("ForeignBuffer::new (the first time)", &create, || new().unwrap());
    none! { table:
        "ForeignBuffer::owner" => buffer.owner();
        "ForeignBuffer::len" => buffer.len();
        "ForeignBuffer::is_empty" => buffer.is_empty();
        "ForeignBuffer::byte_len" => buffer.byte_len();
        "ForeignBuffer::as_raw" => buffer.as_raw();
        "ForeignBuffer::home" => buffer.home().as_raw();
        "ForeignBuffer::as_slice" => buffer.as_slice().len();
        "ForeignBuffer::as_mut_slice" => buffer.as_mut_slice().len();
        "ForeignBuffer::on" => drop(buffer.on(&stream).unwrap());
        "ForeignBuffer::read_on" => drop(buffer.read_on(&stream).unwrap());
    }
    buffer.to_vec().unwrap();
    let down = [EXCHANGE, cuEventQuery, EXCHANGE, cuMemcpyDtoHAsync, cuEventRecord];
    let wait = [EXCHANGE, cuEventSynchronize, EXCHANGE];
    let whole = [&[cuStreamIsCapturing][..], &down, &wait].concat();
    table.row("ForeignBuffer::to_vec", &whole, || buffer.to_vec().unwrap());
    drop(buffer.on(&other).unwrap());
    let fence = [cuEventRecord, cuStreamWaitEvent];
    drop(table.row("ForeignBuffer::on (another stream)", &fence, || buffer.on(&other).unwrap()));
    drop(table.row("ForeignBuffer::read_on (another stream)", &fence, || buffer.read_on(&other).unwrap()));
    stream.synchronize().unwrap();
    let mark = [cuStreamIsCapturing, cuEventRecord, EXCHANGE, cuEventQuery, EXCHANGE];
    table.row("drop of ForeignBuffer", &mark, || drop(buffer));
    context.drop_retired().unwrap();
    let buffer = table.row("ForeignBuffer::new", &[], || new().unwrap());
    let back = || buffer.into_owner().map_err(|(error, _)| error).unwrap();
    table.row("ForeignBuffer::into_owner", &[cuStreamIsCapturing, cuStreamSynchronize], back);
    memset_then_drop(new().unwrap(), &stream);
    let waiting = context.drop_retired().unwrap();
    assert!(waiting <= 1);
    table.row("Context::drop_retired (none)", &[], || context.drop_retired().unwrap());
    // One whose work is not known to be done.
    table.fixture.sim().fail(cuEventQuery, 0, cupool_sim::CUresult::CUDA_ERROR_NOT_READY);
    drop(new().unwrap());
    table.row("Context::drop_retired", &wait, || context.drop_retired().unwrap());
    // SAFETY: as above; nothing is to be released.
    let with = || unsafe { ForeignBuffer::<u32, _, _>::with_release(address, 64, &stream, |_: &Stream| {}) };
    let buffer = table.row("ForeignBuffer::with_release", &[], || with().map_err(|(error, _)| error).unwrap());
    table.row("drop of ForeignBuffer (with_release)", &[], || drop(buffer));
}

fn memset_then_drop(mut buffer: ForeignBuffer<u32, (), &Stream>, stream: &Stream) {
    buffer.as_mut_slice().fill(1).unwrap();
    assert!(buffer.home().is_same(stream));
}

pub(super) fn conversions(table: &mut Table<'_>) {
    let context = table.fixture.context();
    let (raw, of) = {
        let timed = TimedEvent::new(&context).unwrap();
        table.row("TimedEvent::into_raw_parts", &[], || timed.into_raw_parts())
    };
    // SAFETY: the parts of the event above.
    drop(table.row("TimedEvent::from_raw_parts", &[], || unsafe { TimedEvent::from_raw_parts(raw, of) }));
    let pinned = PinnedBuffer::<u32>::new(&context, 64).unwrap();
    let parts = || pinned.into_raw_parts().map_err(|(error, _)| error).unwrap();
    let (address, len, of) = table.row("PinnedBuffer::into_raw_parts", &[cuEventDestroy], parts);
    // SAFETY: the parts of the buffer above.
    let from = || unsafe { PinnedBuffer::from_raw_parts(&context, address, len) }.unwrap();
    let create = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    drop(table.row("PinnedBuffer::from_raw_parts", &create, from));
    drop(of);
}
