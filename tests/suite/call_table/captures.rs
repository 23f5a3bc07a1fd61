//! Beside captures, and while a buffer's own stream is captured.

use cupool::RelaxedCaptureMode;

use super::*;
use crate::g_capture::{begin, end};

pub(super) fn captures(table: &mut Table<'_>) {
    let (pool, stream) = (table.fixture.pool(), table.fixture.stream());
    let relaxed = table.row("RelaxedCaptureMode::new", &[], || RelaxedCaptureMode::new(table.fixture.driver()));
    let allocate = [cuStreamIsCapturing, EXCHANGE, cuMemAllocFromPoolAsync, EXCHANGE];
    let buffer = table.row("MemPool::alloc (beside captures)", &allocate, || pool.alloc::<u8, _>(10, &stream).unwrap());
    table.row("drop of Buffer (beside captures)", &[EXCHANGE, cuMemFreeAsync, EXCHANGE], || drop(buffer));
    let synchronize = [cuStreamIsCapturing, EXCHANGE, cuStreamSynchronize, EXCHANGE];
    table.row("Stream::synchronize (beside captures)", &synchronize, || stream.synchronize().unwrap());
    table.row("Stream::query (beside captures)", &[cuStreamIsCapturing, EXCHANGE, cuStreamQuery, EXCHANGE], || {
        stream.query().unwrap()
    });
    let other = table.fixture.stream();
    other.wait_for(&stream).unwrap();
    let fence = [cuStreamIsCapturing, cuStreamIsCapturing, cuEventRecord, cuStreamWaitEvent];
    table.row("Stream::wait_for (beside captures)", &fence, || other.wait_for(&stream).unwrap());
    table.row("drop of RelaxedCaptureMode", &[], || drop(relaxed));

    let buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
    begin(&stream);
    table.row("drop of Buffer (captured)", &[cuMemFreeAsync, cuStreamIsCapturing], || drop(buffer));
    end(&stream);
    let makes_up = [cuStreamIsCapturing, cuMemFreeAsync, cuStreamSynchronize];
    table.row("Stream::synchronize (after a capture)", &makes_up, || stream.synchronize().unwrap());
}
