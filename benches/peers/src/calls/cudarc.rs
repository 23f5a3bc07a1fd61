//! cudarc.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut};

use super::{
    Operations,
    counts::{Counts, Operation::*},
};
use crate::peer::Outcome;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    AsItComes,
    DefaultStream,
    NoTracking,
}

pub(super) struct Cudarc {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// None where the default stream is the only one.
    other: Option<Arc<CudaStream>>,
    setting: Setting,
}

impl Cudarc {
    pub(super) fn open(setting: Setting) -> Outcome<Self> {
        let context = CudaContext::new(0)?;
        if setting == Setting::NoTracking {
            // SAFETY: where two streams meet, `run` orders them.
            unsafe { context.disable_event_tracking() };
        }
        let (stream, other) = match setting {
            Setting::DefaultStream => (context.default_stream(), None),
            _ => (context.new_stream()?, Some(context.new_stream()?)),
        };
        Ok(Self { context, stream, other, setting })
    }

    fn between_streams(
        &self,
        counts: &mut Counts,
        source: &mut CudaSlice<u8>,
        target: &mut CudaSlice<u8>,
        other: &Arc<CudaStream>,
    ) -> Outcome<()> {
        if self.setting == Setting::NoTracking {
            let by = "`CudaStream::join`, `memcpy_dtod`, `join`";
            return counts.of(BetweenStreams, by, || {
                other.join(&self.stream)?;
                other.memcpy_dtod(source, target)?;
                Ok(self.stream.join(other)?)
            });
        }
        counts.of(BetweenStreams, "`CudaStream::memcpy_dtod`", || Ok(other.memcpy_dtod(source, target)?))?;
        counts.of(Lend, "`CudaSlice::device_ptr_mut`, drop of `SyncOnDrop`", || {
            let (_, guard) = source.device_ptr_mut(other);
            drop(guard);
            Ok(())
        })
    }
}

impl Operations for Cudarc {
    fn run(&self, counts: &mut Counts) -> Outcome<()> {
        let Self { context, stream, other, .. } = self;
        // SAFETY: nobody reads the memory.
        let allocate = || Ok(unsafe { stream.alloc::<u8>(64) }?);
        let slice = counts.of(Allocate, "`CudaStream::alloc`", allocate)?;
        counts.drop_of(Free, "`CudaSlice`", slice)?;
        let zeroed = || Ok(stream.alloc_zeros::<u8>(64)?);
        let mut slice = counts.of(AllocateZeroed, "`CudaStream::alloc_zeros`", zeroed)?;
        counts.of(Fill, "`CudaStream::memset_zeros`", || Ok(stream.memset_zeros(&mut slice)?))?;
        let (source, mut target) = ([1; 64], [0; 64]);
        counts.of(FromHost, "`CudaStream::memcpy_htod`", || Ok(stream.memcpy_htod(&source, &mut slice)?))?;
        counts.of(ToHost, "`CudaStream::memcpy_dtoh`", || Ok(stream.memcpy_dtoh(&slice, &mut target)?))?;
        // The copies do not wait for the device, which uses both arrays.
        stream.synchronize()?;
        let mut near = stream.alloc_zeros::<u8>(64)?;
        counts.of(OnDevice, "`CudaStream::memcpy_dtod`", || Ok(stream.memcpy_dtod(&slice, &mut near)?))?;
        if let Some(other) = other {
            let mut far = other.alloc_zeros::<u8>(64)?;
            self.between_streams(counts, &mut slice, &mut far, other)?;
            let made = counts.of(CreateStream, "`CudaContext::new_stream`", || Ok(context.new_stream()?))?;
            counts.drop_of(DestroyStream, "`CudaStream`", made)?;
            counts.of(OrderStreams, "`CudaStream::join`", || Ok(other.join(stream)?))?;
        }

        counts.of(Synchronize, "`CudaStream::synchronize`", || Ok(stream.synchronize()?))?;
        let event = counts.of(CreateEvent, "`CudaContext::new_event`", || Ok(context.new_event(None)?))?;
        counts.of(Record, "`CudaEvent::record`", || Ok(event.record(stream)?))?;
        counts.of(Wait, "`CudaStream::wait`", || Ok(stream.wait(&event)?))?;
        counts.drop_of(DestroyEvent, "`CudaEvent`", event)?;
        // Errors of what has no result are kept until they are asked for.
        Ok(context.check_err()?)
    }
}
