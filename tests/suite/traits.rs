//! Promised sizes and auto traits.

use std::{rc::Rc, sync::Arc};

use cupool::{
    Access, Buffer, Capture, Context, ContextRef, CurrentPool, DefaultLoan, DefaultThreshold, Device, DeviceSlice,
    DeviceSliceMut, Driver, DriverError, Error, Event, EventRef, ForeignBuffer, Graph, GraphBuffer, GraphExec,
    GraphMemoryUsage, Legacy, LegacyStream, Loan, ManagedBuffer, MemHandleTypes, MemKind, MemLocation, MemPool,
    MemPoolLocation, MemPoolProperties, MemPoolRef, PerThread, PerThreadStream, PinnedBuffer, PointerInfo, Registered,
    RelaxedCaptureMode, SharedDefaultLoan, SharedLoan, Stream, StreamRef, TimedEvent,
    ipc::{EventHandle, ExportedPointer, FabricHandle, ImportedBuffer, ImportedPool, InterprocessEvent},
};

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}
const fn copy<T: Copy>() {}
const fn error<T: std::error::Error + Clone + Send + Sync + 'static>() {}

const _: () = {
    send::<Driver>();
    sync::<Driver>();
    copy::<Driver>();
    copy::<Device>();
    send::<Context>();
    sync::<Context>();
    send::<ContextRef<'_>>();
    send::<Stream>();
    sync::<Stream>();
    send::<StreamRef<'_>>();
    sync::<StreamRef<'_>>();
    send::<Event>();
    sync::<Event>();
    send::<EventRef<'_>>();
    send::<TimedEvent>();
    sync::<TimedEvent>();
    send::<MemPool>();
    sync::<MemPool>();
    send::<MemPoolRef<'_>>();
    copy::<MemPoolProperties>();
    send::<MemPoolProperties>();
    sync::<MemPoolProperties>();
    copy::<MemPoolLocation>();
    copy::<MemKind>();
    copy::<MemHandleTypes>();
    copy::<Access>();
    copy::<GraphMemoryUsage>();
    send::<DefaultThreshold>();
    sync::<DefaultThreshold>();
    send::<CurrentPool<'_>>();
    sync::<CurrentPool<'_>>();
    send::<Buffer<u8, &Stream>>();
    sync::<Buffer<u8, &Stream>>();
    send::<Buffer<u8, Arc<Stream>>>();
    sync::<Buffer<u8, Arc<Stream>>>();
    send::<Buffer<u8>>();
    send::<Buffer<u8, Stream>>();
    send::<DeviceSlice<'_, u8>>();
    sync::<DeviceSlice<'_, u8>>();
    copy::<DeviceSlice<'_, u8>>();
    send::<DeviceSliceMut<'_, u8>>();
    sync::<DeviceSliceMut<'_, u8>>();
    send::<Loan<'_, u8, Arc<Stream>>>();
    send::<SharedLoan<'_, u8, Arc<Stream>>>();
    send::<LegacyStream>();
    sync::<LegacyStream>();
    send::<DefaultLoan<'_, u8, Arc<Stream>, Legacy>>();
    send::<SharedDefaultLoan<'_, u8, Arc<Stream>, Legacy>>();
    send::<ManagedBuffer<u8>>();
    sync::<ManagedBuffer<u8>>();
    send::<ManagedBuffer<u8, &Stream>>();
    send::<MemLocation>();
    copy::<MemLocation>();
    send::<PointerInfo>();
    sync::<PointerInfo>();
    copy::<PointerInfo>();
    send::<PinnedBuffer<u8>>();
    sync::<PinnedBuffer<u8>>();
    send::<Registered<Vec<u8>, u8>>();
    send::<ForeignBuffer<u8, Vec<u8>, &Stream>>();
    sync::<ForeignBuffer<u8, Vec<u8>, &Stream>>();
    send::<Graph>();
    send::<GraphExec>();
    sync::<GraphExec>();
    send::<RelaxedCaptureMode>();
    sync::<RelaxedCaptureMode>();
    send::<ImportedPool>();
    sync::<ImportedPool>();
    send::<ImportedBuffer<u8, &Stream>>();
    sync::<ImportedBuffer<u8, &Stream>>();
    send::<ImportedBuffer<u8>>();
    copy::<ExportedPointer>();
    send::<ExportedPointer>();
    copy::<FabricHandle>();
    copy::<EventHandle>();
    send::<InterprocessEvent>();
    sync::<InterprocessEvent>();
    error::<Error>();
    error::<DriverError>();
    copy::<DriverError>();
};

/// Compiles only if the type lacks the trait: with it, two implementations fit.
macro_rules! lacks {
    ($($type:ty: $trait:path;)*) => { $( const _: fn() = || {
        trait Ambiguous<A> {
            fn item() {}
        }
        struct Has;
        impl<T: ?Sized> Ambiguous<()> for T {}
        impl<T: ?Sized + $trait> Ambiguous<Has> for T {}
        let _ = <$type as Ambiguous<_>>::item;
    }; )* };
}

lacks! {
    Buffer<u8, Rc<Stream>>: Send;
    Buffer<u8, Rc<Stream>>: Sync;
    ForeignBuffer<u8, Rc<()>, &Stream>: Send;
    ForeignBuffer<u8, core::cell::Cell<u8>, &Stream>: Sync;
    ForeignBuffer<u8, (), Rc<Stream>>: Send;
    Buffer<u8, &Stream>: Clone;
    Buffer<u8, Arc<Stream>>: Clone;
    DeviceSliceMut<'_, u8>: Clone;
    LegacyStream: Clone;
    PerThreadStream: Clone;
    PerThreadStream: Send;
    PerThreadStream: Sync;
    DefaultLoan<'_, u8, Arc<Stream>, PerThread>: Send;
    SharedDefaultLoan<'_, u8, Arc<Stream>, PerThread>: Send;
    ManagedBuffer<u8>: Clone;
    ManagedBuffer<u8, Rc<Stream>>: Send;
    ManagedBuffer<u8, Rc<Stream>>: Sync;
    Graph: Sync;
    Graph: Clone;
    GraphExec: Clone;
    Capture<'_>: Send;
    Capture<'_>: Sync;
    GraphBuffer<'_, u8>: Send;
    Stream: Clone;
    MemPool: Clone;
    CurrentPool<'_>: Clone;
    DefaultThreshold: Clone;
    Context: Clone;
    Event: Clone;
    ImportedBuffer<u8, Rc<Stream>>: Send;
    ImportedBuffer<u8, &Stream>: Clone;
    ImportedPool: Clone;
    InterprocessEvent: Clone;
}

#[test]
fn handles_are_as_small_as_promised() {
    let word = size_of::<usize>();
    assert_eq!(size_of::<Driver>(), word);
    assert_eq!(size_of::<Option<Driver>>(), word);
    assert!(size_of::<Device>() <= 2 * word);
    assert_eq!(size_of::<Context>(), word);
    assert_eq!(size_of::<Graph>(), word);
    assert!(size_of::<GraphExec>() <= 4 * word);
    assert_eq!(size_of::<RelaxedCaptureMode>(), word);
    assert!(size_of::<Buffer<u8, &Stream>>() <= 32);
    assert_eq!(size_of::<Buffer<f64>>(), size_of::<Buffer<u8, &Stream>>());
    assert_eq!(size_of::<LegacyStream>(), size_of::<Stream>());
    assert_eq!(size_of::<PerThreadStream>(), size_of::<Stream>());
    assert_eq!(size_of::<DeviceSlice<'_, u8>>(), 3 * word);
    assert_eq!(size_of::<DeviceSliceMut<'_, u64>>(), 3 * word);
    assert!(size_of::<Error>() <= 3 * word);
    assert_eq!(size_of::<CurrentPool<'_>>(), 2 * word);
    assert_eq!(size_of::<Access>(), 1);
    assert_eq!(size_of::<Result<Buffer<u8, &Stream>, Error>>(), size_of::<Buffer<u8, &Stream>>());
}

#[test]
fn an_option_of_a_buffer_or_view_is_no_larger() {
    assert_eq!(size_of::<Option<Buffer<u8, &Stream>>>(), size_of::<Buffer<u8, &Stream>>());
    assert_eq!(size_of::<Option<Buffer<u8>>>(), size_of::<Buffer<u8>>());
    assert_eq!(size_of::<Option<DeviceSlice<'_, u8>>>(), size_of::<DeviceSlice<'_, u8>>());
    assert_eq!(size_of::<Option<DeviceSliceMut<'_, u8>>>(), size_of::<DeviceSliceMut<'_, u8>>());
    assert_eq!(size_of::<Option<Context>>(), size_of::<Context>());
    assert_eq!(size_of::<Option<Event>>(), size_of::<Event>());
}

#[test]
fn what_is_sent_to_other_processes_is_of_promised_sizes() {
    assert_eq!((ExportedPointer::BYTES, FabricHandle::BYTES, EventHandle::BYTES), (100, 76, 80));
    assert_eq!(size_of::<ImportedPool>(), size_of::<usize>());
    assert_eq!(size_of::<InterprocessEvent>(), size_of::<Event>());
    assert_eq!(size_of::<MemHandleTypes>(), 4);
}

#[test]
fn owned_and_borrowed_handles_are_of_one_size() {
    assert_eq!(size_of::<Stream>(), size_of::<StreamRef<'_>>());
    assert_eq!(size_of::<Event>(), size_of::<EventRef<'_>>());
    assert_eq!(size_of::<MemPool>(), size_of::<MemPoolRef<'_>>());
    assert_eq!(size_of::<Context>(), size_of::<ContextRef<'_>>());
}

#[test]
fn a_timed_event_is_as_large_as_an_event() {
    assert_eq!(size_of::<TimedEvent>(), size_of::<Event>());
}

#[cfg(feature = "dlpack")]
mod tensors {
    use cupool::dlpack::{
        ConsumerStream, DlpackError, ImportedTensor, ManagedTensor,
        ffi::{DLManagedTensorVersioned, DLTensor},
    };

    use super::*;

    const _: () = {
        send::<ManagedTensor>();
        sync::<ManagedTensor>();
        send::<ImportedTensor<f32, &Stream>>();
        sync::<ImportedTensor<f32, Arc<Stream>>>();
        send::<ConsumerStream>();
        copy::<ConsumerStream>();
        error::<DlpackError>();
    };

    lacks! {
        ManagedTensor: Clone;
        ImportedTensor<f32, Rc<Stream>>: Send;
    }

    #[test]
    fn tensors_lie_in_memory_as_the_header_says() {
        let word = size_of::<usize>();
        assert_eq!(size_of::<ManagedTensor>(), word);
        assert_eq!(size_of::<Option<ManagedTensor>>(), word);
        assert_eq!((size_of::<DLTensor>(), align_of::<DLTensor>()), (48, 8));
        assert_eq!((size_of::<DLManagedTensorVersioned>(), align_of::<DLManagedTensorVersioned>()), (80, 8));
    }
}
