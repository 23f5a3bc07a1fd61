//! Promised sizes and auto traits.

use std::{rc::Rc, sync::Arc};

use cupool::{
    Buffer, Context, ContextRef, Device, DeviceSlice, DeviceSliceMut, Driver, DriverError, Error, Event, EventRef,
    HandleTypes, Loan, MemPool, MemPoolRef, PinnedBuffer, Registered, SharedLoan, Stream, StreamRef, TimedEvent,
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
    send::<PinnedBuffer<u8>>();
    sync::<PinnedBuffer<u8>>();
    send::<Registered<Vec<u8>, u8>>();
    copy::<HandleTypes>();
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
    Buffer<u8, &Stream>: Clone;
    Buffer<u8, Arc<Stream>>: Clone;
    DeviceSliceMut<'_, u8>: Clone;
    Stream: Clone;
    MemPool: Clone;
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
    assert!(size_of::<Buffer<u8, &Stream>>() <= 32);
    assert_eq!(size_of::<Buffer<f64>>(), size_of::<Buffer<u8, &Stream>>());
    assert_eq!(size_of::<DeviceSlice<'_, u8>>(), 3 * word);
    assert_eq!(size_of::<DeviceSliceMut<'_, u64>>(), 3 * word);
    assert!(size_of::<Error>() <= 3 * word);
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
    assert_eq!((ExportedPointer::BYTES, FabricHandle::BYTES, EventHandle::BYTES), (92, 76, 80));
    assert_eq!(size_of::<ImportedPool>(), size_of::<usize>());
    assert_eq!(size_of::<InterprocessEvent>(), size_of::<Event>());
    assert_eq!(size_of::<HandleTypes>(), 4);
}

#[test]
fn owned_and_borrowed_handles_are_of_one_size() {
    assert_eq!(size_of::<Stream>(), size_of::<StreamRef<'_>>());
    assert_eq!(size_of::<Event>(), size_of::<EventRef<'_>>());
    assert_eq!(size_of::<MemPool>(), size_of::<MemPoolRef<'_>>());
    assert_eq!(size_of::<Context>(), size_of::<ContextRef<'_>>());
}
