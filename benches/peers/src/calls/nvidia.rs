//! NVIDIA's crate cuda-core. A thread of its own frees memory and ends accesses once the device is done.

use std::sync::Arc;

use cuda_core::{Context, DeviceBuffer, Stream};

use super::{
    Operations,
    counts::{Counts, Operation::*},
};
use crate::{peer::Outcome, with_cuda_core::failed};

pub(super) struct CudaCore {
    context: Arc<Context>,
    stream: Arc<Stream>,
    other: Arc<Stream>,
}

impl CudaCore {
    pub(super) fn open() -> Outcome<Self> {
        let context = Context::new(0).map_err(failed)?;
        let (stream, other) = (context.new_stream().map_err(failed)?, context.new_stream().map_err(failed)?);
        Ok(Self { context, stream, other })
    }

    fn allocate(&self, stream: &Arc<Stream>) -> Outcome<DeviceBuffer<u8>> {
        // SAFETY: the memory is written before anybody reads it.
        unsafe { DeviceBuffer::uninitialized_async(stream, 64) }.map_err(failed)
    }
}

impl Operations for CudaCore {
    fn run(&self, counts: &mut Counts) -> Outcome<()> {
        let Self { context, stream, other } = self;
        let buffer = counts.of(Allocate, "`DeviceBuffer::uninitialized_async`", || self.allocate(stream))?;
        counts.drop_of(Free, "`DeviceBuffer`", buffer)?;
        let zeroed = || DeviceBuffer::<u8>::zeroed(stream, 64).map_err(failed);
        drop(counts.of(AllocateZeroed, "`DeviceBuffer::zeroed`", zeroed)?);
        let mut buffer = self.allocate(stream)?;
        counts.of(Fill, "`DeviceBuffer::zero_async`", || buffer.zero_async(stream).map_err(failed))?;
        let up = || buffer.copy_from_host(stream, &[1; 64]).map_err(failed);
        counts.of(FromHost, "`DeviceBuffer::copy_from_host`", up)?;
        let down = || buffer.copy_to_host(stream, &mut [0; 64]).map_err(failed);
        counts.of(ToHost, "`DeviceBuffer::copy_to_host`", down)?;
        let mut near = self.allocate(stream)?;
        let copy = || near.copy_from_device_async(&buffer, stream).map_err(failed);
        counts.of(OnDevice, "`DeviceBuffer::copy_from_device_async`", copy)?;
        let mut far = self.allocate(other)?;
        counts.of(BetweenStreams, "`Stream::join`, `copy_from_device_async`, `join`", || {
            other.join(stream).map_err(failed)?;
            far.copy_from_device_async(&buffer, other).map_err(failed)?;
            stream.join(other).map_err(failed)
        })?;
        let by = "`RawDeviceBuffer::acquire`, `AllocationLease::retain_until_complete`";
        counts.of(Lend, by, || {
            let lease = buffer.storage().acquire(other, true, false).map_err(failed)?;
            lease.retain_until_complete(other).map_err(failed)
        })?;

        let made = counts.of(CreateStream, "`Context::new_stream`", || context.new_stream().map_err(failed))?;
        counts.drop_of(DestroyStream, "`Stream`", made)?;
        counts.of(Synchronize, "`Stream::synchronize`", || stream.synchronize().map_err(failed))?;
        counts.of(OrderStreams, "`Stream::join`", || other.join(stream).map_err(failed))?;
        let event = counts.of(CreateEvent, "`Context::new_event`", || context.new_event().map_err(failed))?;
        counts.of(Record, "`Event::record`", || event.record(stream).map_err(failed))?;
        counts.of(Wait, "`Stream::wait_event`", || other.wait_event(&event).map_err(failed))?;
        counts.drop_of(DestroyEvent, "`Event`", event)
    }
}
