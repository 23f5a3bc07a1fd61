//! One object of a kind, alive with work behind it. What it borrows is given to the process for good.

use core::any::Any;
use std::{
    env,
    sync::{Arc, OnceLock},
};

use cupool::{
    Buffer, Context, Driver, Event, HandleTypes, MemPool, MemPoolProperties, PinnedBuffer, Registered, Stream,
    TimedEvent,
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
    let properties = MemPoolProperties { max_size: 64 << 20, ..MemPoolProperties::default() };
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

/// An import of our own, which is released before the buffer that it is of.
fn imported(context: &Context, stream: Arc<Stream>) -> impl Any + Send {
    let properties = MemPoolProperties { max_size: 64 << 20, export: HandleTypes::POSIX_FD, ..Default::default() };
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
