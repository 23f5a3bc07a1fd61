//! One object of a kind, alive with work behind it. What it borrows is given to the process for good.

use core::any::Any;
use std::{
    env,
    sync::{Arc, OnceLock},
};

use cupool::{
    Buffer, Context, Driver, Event, ForeignBuffer, LegacyStream, ManagedBuffer, MemHandleTypes, MemPool,
    MemPoolProperties, PinnedBuffer, Registered, Stream, TimedEvent,
    ipc::{ImportedBuffer, ImportedPool, InterprocessEvent},
};
use cupool_sim::Simulator;

pub(crate) type Object = Box<dyn Any + Send>;

pub(crate) const KINDS: &[&str] = &[
    "context",
    "stream",
    "event",
    "timed event",
    "pool",
    "borrowing buffer",
    "sharing buffer",
    "view",
    "loan",
    "shared loan",
    "pinned buffer with a copy under way",
    "registered memory",
    "managed buffer",
    "managed memory kept by its context",
    "default stream",
    "loan to a default stream",
    "foreign buffer",
    "retired owner",
    #[cfg(feature = "dlpack")]
    "exported tensor",
    "imported buffer",
    "interprocess event",
    "everything",
    #[cfg(feature = "launch")]
    "module",
    #[cfg(feature = "launch")]
    "function",
];

/// A driver that lives as long as the process, and the simulator behind it where it is a simulated one.
pub(crate) fn driver() -> (Driver, Option<&'static Simulator>) {
    static SIMULATOR: OnceLock<Simulator> = OnceLock::new();
    if env::var("CUPOOL_TEST_DRIVER").is_ok_and(|which| which == "real") {
        return (Driver::load().unwrap(), None);
    }
    let simulator = SIMULATOR.get_or_init(Simulator::new);
    // SAFETY: every entry behaves as the driver's.
    (unsafe { Driver::from_functions(simulator.functions()) }, Some(simulator))
}

/// For as long as the process.
fn leaked<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

pub(crate) fn make(kind: &str) -> Object {
    let device = driver().0.device(0).unwrap();
    let context = device.primary_context().unwrap();
    let properties = MemPoolProperties::new().max_size(64 << 20);
    let pool = MemPool::with_properties(&device, &properties).unwrap();
    let (stream, other) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    match kind {
        "context" => {
            // The blocks of host copies are the context's own.
            let buffer = pool.alloc_from_host(&[1_u8; 1000], &stream).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1; 1000]);
            Box::new(context)
        }
        "stream" => {
            // With an event for those who wait for it.
            other.wait_for(&stream).unwrap();
            Box::new(stream)
        }
        "event" => {
            let event = Event::new(&context).unwrap();
            event.record(&stream).unwrap();
            Box::new(event)
        }
        "timed event" => {
            let event = TimedEvent::new(&context).unwrap();
            event.record(&stream).unwrap();
            Box::new(event)
        }
        "pool" => {
            drop(pool.alloc_zeroed::<u8, _>(1000, &stream).unwrap());
            Box::new(pool)
        }
        "borrowing buffer" => Box::new(pool.alloc_zeroed::<u8, _>(1000, &*leaked(stream)).unwrap()),
        "sharing buffer" => {
            let mut buffer: Buffer<u8> = pool.alloc_zeroed(1000, Arc::new(stream)).unwrap();
            buffer.copy_from(pool.alloc_zeroed(1000, &other).unwrap().as_slice()).unwrap();
            Box::new(buffer)
        }
        "view" => {
            let buffer: &'static mut Buffer<u8> = leaked(pool.alloc_zeroed(1000, Arc::new(stream)).unwrap());
            Box::new((buffer.slice_mut(..500).unwrap(), pool))
        }
        "loan" => {
            let buffer: &'static mut Buffer<u8> = leaked(pool.alloc_zeroed(1000, Arc::new(stream)).unwrap());
            let mut loan = buffer.on(leaked(other)).unwrap();
            loan.as_mut_slice().fill(1).unwrap();
            Box::new(loan)
        }
        "shared loan" => {
            let buffer: &'static mut Buffer<u8> = leaked(pool.alloc_zeroed(1000, Arc::new(stream)).unwrap());
            Box::new((
                buffer.read_on(leaked(other)).unwrap(),
                buffer.read_on(leaked(Stream::new(&context).unwrap())).unwrap(),
            ))
        }
        "pinned buffer with a copy under way" => {
            let mut host = PinnedBuffer::<u8>::new(&context, 1 << 20).unwrap();
            let buffer: Buffer<u8> = pool.alloc_zeroed(1 << 20, Arc::new(stream)).unwrap();
            buffer.as_slice().copy_to_pinned(&mut host).unwrap();
            Box::new(host)
        }
        "registered memory" => Box::new(Registered::from_vec(&context, vec![1_u8; 10_000]).unwrap()),
        "managed buffer" => {
            let mut buffer: ManagedBuffer<u8> = ManagedBuffer::alloc(1000, Arc::new(stream)).unwrap();
            buffer.as_host_mut_slice().unwrap().fill(1);
            buffer.as_mut_slice().fill(2).unwrap();
            Box::new(buffer)
        }
        "managed memory kept by its context" => {
            let mut buffer = ManagedBuffer::<u8, _>::alloc(1000, &stream).unwrap();
            buffer.as_mut_slice().fill(2).unwrap();
            drop(buffer);
            Box::new((context, stream))
        }
        "default stream" => {
            let default = LegacyStream::new(&context).unwrap();
            stream.wait_for_default(&default).unwrap();
            Box::new(default)
        }
        "loan to a default stream" => {
            let buffer: &'static mut Buffer<u8> = leaked(pool.alloc_zeroed(1000, Arc::new(stream)).unwrap());
            Box::new(buffer.on_default(leaked(LegacyStream::new(&context).unwrap())).unwrap())
        }
        "foreign buffer" => Box::new(foreign(&pool, stream)),
        "retired owner" => {
            drop(foreign(&pool, stream));
            Box::new(context)
        }
        #[cfg(feature = "dlpack")]
        "exported tensor" => {
            let buffer: Buffer<u8> = pool.alloc_zeroed(1000, Arc::new(stream)).unwrap();
            let legacy = cupool::dlpack::ConsumerStream::LEGACY;
            Box::new(buffer.into_dlpack(&[1000], legacy).map_err(|(error, _)| error).unwrap())
        }
        "imported buffer" => Box::new(imported(&context, Arc::new(stream))),
        "interprocess event" => {
            let event = InterprocessEvent::new(&context).unwrap();
            event.record(&stream).unwrap();
            event.export().unwrap();
            Box::new(event)
        }
        "everything" => Box::new(everything(context, pool, stream, other)),
        #[cfg(feature = "launch")]
        "module" => Box::new(module(&context)),
        #[cfg(feature = "launch")]
        "function" => Box::new(module(&context).function("nothing").unwrap()),
        other => panic!("no kind is called {other}"),
    }
}

/// With work under way, and an owner that is a buffer itself, of another share of the context: it would keep this one.
fn foreign(pool: &MemPool, stream: Stream) -> ForeignBuffer<u8, Buffer<u8>> {
    let theirs = Stream::new(&pool.device().primary_context().unwrap()).unwrap();
    let memory: Buffer<u8> = pool.alloc_zeroed(1000, Arc::new(theirs)).unwrap();
    stream.wait_for(memory.home()).unwrap();
    let address = memory.as_raw();
    // SAFETY: the memory is the owner's, ready in the stream's order, and not used otherwise.
    let foreign = unsafe { ForeignBuffer::<u8, _, _>::new(address, 1000, Arc::new(stream), memory) };
    let mut foreign = foreign.map_err(|(error, _)| error).unwrap();
    foreign.as_mut_slice().fill(1).unwrap();
    foreign
}

/// An import of our own, which is released before the buffer that it is of.
fn imported(context: &Context, stream: Arc<Stream>) -> impl Any + Send {
    let properties = MemPoolProperties::new().max_size(64 << 20).handle_types(MemHandleTypes::POSIX_FD);
    let pool = MemPool::with_properties(&context.device(), &properties).unwrap();
    let imported = ImportedPool::from_fd(context, pool.export_fd().unwrap()).unwrap();
    let buffer: Buffer<u8> = pool.alloc_zeroed(1000, Arc::clone(&stream)).unwrap();
    // SAFETY: both are at home on one stream, and dropped in this order.
    let view: ImportedBuffer<u8> = unsafe { imported.import(&buffer.export().unwrap(), stream) }.unwrap();
    (view, imported, buffer, pool)
}

fn everything(context: Context, pool: MemPool, stream: Stream, other: Stream) -> impl Any + Send {
    let mut host = PinnedBuffer::<u8>::new(&context, 1000).unwrap();
    let registered = Registered::from_vec(&context, vec![1_u8; 1000]).unwrap();
    let (event, timed) = (Event::new(&context).unwrap(), TimedEvent::new(&context).unwrap());
    let (stream, other) = (Arc::new(stream), Arc::new(other));
    let one: Buffer<u8> = pool.alloc_from_host(&[1; 1000], Arc::clone(&stream)).unwrap();
    let mut two: Buffer<u8> = pool.alloc(1000, Arc::clone(&other)).unwrap();
    two.copy_from(one.as_slice()).unwrap();
    two.as_slice().copy_to_pinned(&mut host).unwrap();
    event.record(&stream).unwrap();
    timed.record(&other).unwrap();
    // In another order than that of their making.
    (context, host, stream, two, event, pool, registered, one, other, timed)
}

#[cfg(feature = "launch")]
fn module(context: &Context) -> cupool::launch::Module {
    const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n";
    if let Some(simulator) = driver().1 {
        simulator.register_kernel("nothing", &[], |_| {});
    }
    cupool::launch::Module::from_ptx(context, PTX).unwrap()
}
