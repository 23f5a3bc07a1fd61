//! Every public operation once, whatever becomes of the ones before: what the sweeps over missing entry points and
//! failing calls run.

use std::sync::Arc;

use cupool::{
    Buffer, Context, Device, Driver, Error, Event, Graph, InstantiateOptions, MemKind, MemPool, MemPoolLocation,
    MemPoolProperties, PinnedBuffer, Registered, Result, Stream, StreamOptions, StreamRef, TimedEvent,
};

use crate::fixture::POOL_SIZE;

/// What failed, by the name of the operation.
#[derive(Default)]
pub(crate) struct Failures(pub(crate) Vec<(&'static str, Error)>);

impl Failures {
    fn keep<T>(&mut self, operation: &'static str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push((operation, error))).ok()
    }
}

/// Runs every operation that can be reached, drops everything, and says what failed.
pub(crate) fn everything(driver: Driver) -> Vec<(&'static str, Error)> {
    let mut failures = Failures::default();
    reach(driver, &mut failures);
    failures.keep("destroy_dropped", MemPool::destroy_dropped(driver));
    failures.0
}

fn reach(driver: Driver, failures: &mut Failures) -> Option<()> {
    failures.keep("version", driver.version());
    failures.keep("init", driver.init());
    failures.keep("device_count", driver.device_count());
    if let Some(devices) = failures.keep("devices", driver.devices()) {
        for device in devices {
            failures.keep("devices: item", device);
        }
    }
    let device = failures.keep("device", driver.device(0))?;
    ask(device, failures);
    let context = failures.keep("primary_context", device.primary_context())?;
    contexts(&context, failures);
    pools(device, failures);
    let first = failures.keep("Stream::new", Stream::new(&context))?;
    let options = StreamOptions { blocking: true, priority: -1 };
    let second = Arc::new(failures.keep("Stream::with_options", Stream::with_options(&context, options))?);
    streams(&first, &second, failures);
    events(&context, &first, &second, failures);
    let pool = failures.keep("MemPool::with_properties", capped(device))?;
    memory(&pool, &first, &second, failures);
    graphs(&pool, &first, failures);
    failures.keep("raw parts", raw_parts(&context, device));
    Some(())
}

fn ask(device: Device, failures: &mut Failures) {
    failures.keep("name", device.name());
    failures.keep("pci_bus_id", device.pci_bus_id());
    failures.keep("uuid", device.uuid());
    failures.keep("total_memory", device.total_memory());
    failures.keep("can_access_peer", device.can_access_peer(device));
    failures.keep("compute_capability", device.compute_capability());
    failures.keep("ensure_memory_pools_supported", device.ensure_memory_pools_supported());
    failures.keep("memory_pools_supported", device.memory_pools_supported());
}

fn contexts(context: &Context, failures: &mut Failures) {
    failures.keep("try_clone", context.try_clone());
    failures.keep("memory_info", context.memory_info());
    failures.keep("Context::synchronize", context.synchronize());
    failures.keep("stream_priority_range", context.stream_priority_range());
    failures.keep("with_current", context.with_current(|| Ok(())));
}

/// A limit where the driver has any.
fn capped(device: Device) -> Result<MemPool> {
    let limits = device.driver().version().is_ok_and(|version| version >= 12020);
    MemPool::with_properties(&device, &MemPoolProperties::new().max_size(if limits { POOL_SIZE } else { 0 }))
}

fn pools(device: Device, failures: &mut Failures) {
    failures.keep("default_of", MemPool::default_of(&device));
    // SAFETY: the pool is not used.
    failures.keep("current_of", unsafe { MemPool::current_of(&device) });
    let host = MemPoolProperties::new().location(MemPoolLocation::Host).max_size(POOL_SIZE);
    failures.keep("a host pool", MemPool::with_properties(&device, &host));
    failures.keep("default_at", MemPool::default_at(&device, MemPoolLocation::Device, MemKind::Pinned));
    // SAFETY: the pool is not used.
    failures.keep("current_at", unsafe { MemPool::current_at(&device, MemPoolLocation::Device, MemKind::Pinned) });
    let Some(mut pool) = failures.keep("MemPool", capped(device)) else { return };
    failures.keep("location", pool.location());
    failures.keep("kind", pool.kind());
    failures.keep("max_size", pool.max_size());
    failures.keep("handle_types", pool.handle_types());
    failures.keep("hw_decompress", pool.hw_decompress());
    failures.keep("usage", pool.usage());
    failures.keep("reset_peaks", pool.reset_peaks());
    failures.keep("release_threshold", pool.release_threshold());
    failures.keep("set_release_threshold", pool.set_release_threshold(1 << 20));
    failures.keep("trim_to", pool.trim_to(0));
    failures.keep("threshold_shortfall", pool.threshold_shortfall());
    failures.keep("access_of", pool.access_of(&device));
    failures.keep("grant", pool.grant(&device, cupool::Access::ReadWrite));
    failures.keep("graph_memory_usage", device.graph_memory_usage());
    failures.keep("reset_graph_memory_peaks", device.reset_graph_memory_peaks());
    failures.keep("trim_graph_memory", device.trim_graph_memory());
    failures.keep("reuse_follow_event_dependencies", pool.reuse_follow_event_dependencies());
    failures.keep("set_reuse_follow_event_dependencies", pool.set_reuse_follow_event_dependencies(true));
    failures.keep("reuse_allow_opportunistic", pool.reuse_allow_opportunistic());
    failures.keep("set_reuse_allow_opportunistic", pool.set_reuse_allow_opportunistic(true));
    failures.keep("reuse_allow_internal_dependencies", pool.reuse_allow_internal_dependencies());
    failures.keep("set_reuse_allow_internal_dependencies", pool.set_reuse_allow_internal_dependencies(true));
}

fn streams(first: &Stream, second: &Stream, failures: &mut Failures) {
    failures.keep("Stream::synchronize", first.synchronize());
    failures.keep("Stream::query", first.query());
    failures.keep("id", first.id());
    failures.keep("options", first.options());
    failures.keep("is_capturing", first.is_capturing());
    failures.keep("wait_for", first.wait_for(second));
}

fn events(context: &Context, first: &Stream, second: &Stream, failures: &mut Failures) -> Option<()> {
    let event = failures.keep("Event::new", Event::new(context))?;
    failures.keep("record", event.record(first));
    failures.keep("wait", second.wait(&event));
    failures.keep("Event::synchronize", event.synchronize());
    failures.keep("Event::query", event.query());
    let start = failures.keep("TimedEvent::new", TimedEvent::new(context))?;
    let end = failures.keep("TimedEvent::new", TimedEvent::new(context))?;
    let started = failures.keep("record start", start.record(first));
    let ended = failures.keep("record end", end.record(first));
    let waited = failures.keep("synchronize end", end.synchronize());
    // Only then does the driver owe an answer.
    if started.and(ended).and(waited).is_some() {
        failures.keep("elapsed_ms_since", end.elapsed_ms_since(&start));
    }
    Some(())
}

fn memory(pool: &MemPool, first: &Stream, second: &Arc<Stream>, failures: &mut Failures) -> Option<()> {
    let mut mine = failures.keep("alloc", pool.alloc::<u32, _>(1024, first))?;
    let mut theirs = failures.keep("alloc_zeroed", pool.alloc_zeroed::<u32, _>(1024, Arc::clone(second)))?;
    let samples: Vec<u32> = (0..1024).collect();
    failures.keep("alloc_from_host", pool.alloc_from_host(&samples, borrowed(first)));
    failures.keep("copy_from_host", mine.copy_from_host(&samples));
    failures.keep("copy_from another home", theirs.copy_from(mine.as_slice()));
    failures.keep("copy_to_host", theirs.copy_to_host(&mut vec![0; 1024]));
    failures.keep("to_vec", theirs.to_vec());
    failures.keep("fill 4", mine.fill(7));
    failures.keep("fill_zero", mine.fill_zero());
    let mut bytes = failures.keep("cast", mine.cast::<u8>().map_err(|(error, _)| error))?;
    failures.keep("fill 1", bytes.fill(1));
    failures.keep("fill 2", bytes.as_mut_slice().cast::<u16>().and_then(|mut halves| halves.fill(2)));
    let (mut head, tail) = failures.keep("split_at", bytes.as_mut_slice().split_at(2048))?;
    failures.keep("copy_from the same home", head.copy_from(tail.as_slice()));
    failures.keep("free", bytes.free());
    failures.keep("from_current_pool", Buffer::<u8, _>::from_current_pool(100, first));
    failures.keep("trim_after", pool.trim_after(first, 0));
    page_locked(&mut theirs, failures);
    loans(theirs, first, failures)
}

fn page_locked(buffer: &mut Buffer<u32>, failures: &mut Failures) -> Option<()> {
    let context = buffer.home().context().try_clone().ok()?;
    let registered = Registered::from_vec(&context, vec![1_u8; 100]).map_err(|(error, _)| error);
    failures.keep("register", registered.map(drop));
    let mut host = failures.keep("PinnedBuffer::new", PinnedBuffer::<u32>::new(&context, 1024))?;
    failures.keep("copy_from_pinned", buffer.as_mut_slice().copy_from_pinned(&host));
    failures.keep("copy_to_pinned", buffer.as_slice().copy_to_pinned(&mut host));
    failures.keep("as_slice of pinned memory", host.as_slice());
    failures.keep("copy_from_pinned", buffer.as_mut_slice().copy_from_pinned(&host));
    failures.keep("as_mut_slice of pinned memory", host.as_mut_slice());
    Some(())
}

fn loans(mut buffer: Buffer<u32>, other: &Stream, failures: &mut Failures) -> Option<()> {
    if let Some(mut loan) = failures.keep("on", buffer.on(other)) {
        failures.keep("fill a loan", loan.as_mut_slice().fill(3));
        failures.keep("to_vec of a loan", loan.as_slice().to_vec());
    }
    if let Some(loan) = failures.keep("read_on", buffer.read_on(other)) {
        failures.keep("to_vec of a shared loan", loan.as_slice().to_vec());
    }
    let moved = failures.keep("move_to", buffer.move_to(other).map_err(|(error, _)| error))?;
    failures.keep("to_vec of what moved", moved.to_vec());
    failures.keep("free", moved.free());
    Some(())
}

fn graphs(pool: &MemPool, stream: &Stream, failures: &mut Failures) -> Option<()> {
    failures.keep("capture_status", stream.capture_status());
    let captured = Graph::capture(stream.context(), |capture| {
        let mut own = capture.alloc::<u32>(pool, 100)?;
        own.as_mut_slice().fill(1)?;
        own.free()
    });
    let (graph, ()) = failures.keep("Graph::capture", captured)?;
    let mut exec = failures.keep("instantiate", graph.instantiate(InstantiateOptions::default()))?;
    // SAFETY: the graph uses no memory but its own.
    failures.keep("launch of a graph", unsafe { exec.launch(stream) });
    failures.keep("synchronize a graph", exec.synchronize());
    Some(())
}

/// The same stream, as if it were somebody else's.
fn borrowed(stream: &Stream) -> StreamRef<'_> {
    // SAFETY: the stream is of that context, and borrowed for as long.
    unsafe { StreamRef::borrow_raw(stream.context(), stream.as_raw()) }
}

/// Takes everything apart and puts it together again.
fn raw_parts(context: &Context, device: Device) -> Result<()> {
    let (raw, of) = Stream::new(context)?.into_raw_parts();
    // SAFETY: these are the parts of a stream that was just given up.
    let stream = unsafe { Stream::from_raw_parts(raw, of) };
    let (raw, of) = Event::new(context)?.into_raw_parts();
    // SAFETY: these are the parts of an event that was just given up.
    let event = unsafe { Event::from_raw_parts(raw, of) };
    event.record(&stream)?;
    let raw = context.try_clone()?.into_raw()?;
    // SAFETY: the retain was just given up.
    drop(unsafe { Context::from_raw(device, raw) });
    let raw = capped(device)?.into_raw();
    // SAFETY: the pool was just given up.
    let pool = unsafe { MemPool::from_raw(device, raw) };
    let (address, len, home) = pool.alloc::<u16, _>(100, &stream)?.into_raw_parts();
    // SAFETY: these are the parts of a buffer that was just given up.
    drop(unsafe { cupool::Buffer::<u16, _>::from_raw_parts(address, len, home) });
    Ok(())
}
