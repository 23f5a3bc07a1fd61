//! What only a GPU can show: real kernels that keep a stream busy, real copies that are late, real threads.
//!
//! Each test is ignored without a GPU and fails if it is run without one:
//! `cargo test --release --test hardware -- --ignored --test-threads 1`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{
    env, ptr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cupool::{
    Buffer, Context, Driver, Event, MemPool, MemPoolProperties, PinnedBuffer, Registered, Stream, TimedEvent,
    launch::{Function, LaunchConfig, Module},
    release_failures,
};

/// Long enough for everything behind it to be enqueued before it ends.
const SPIN: Duration = Duration::from_millis(20);
/// Elements of 4 bytes: 1 MiB.
const LEN: usize = 256 << 10;
/// How often each race is run.
const TIMES: u32 = 200;

#[path = "suite/registered.rs"]
mod registered;

use registered::RegisteredPart;

struct Gpu {
    context: Context,
    pool: MemPool,
    spin: Function,
    add: Function,
}

impl Gpu {
    fn new() -> Self {
        let device = Driver::load().expect("this test needs a GPU").device(0).unwrap();
        let context = device.primary_context().unwrap();
        let pool = MemPool::with_properties(&device, &MemPoolProperties::new().max_size(2 << 30));
        let module = Module::from_ptx(&context, include_str!("kernels/kernels.ptx")).unwrap();
        Self {
            pool: pool.unwrap(),
            spin: module.function("spin").unwrap(),
            add: module.function("add").unwrap(),
            context,
        }
    }

    fn stream(&self) -> Stream {
        Stream::new(&self.context).unwrap()
    }

    /// Keeps `stream` busy.
    fn spin(&self, stream: &Stream) {
        let config = LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
        // SAFETY: the kernel takes one number and touches no memory.
        unsafe { self.spin.launch(stream, config, &(SPIN.as_nanos() as u64,)) }.unwrap();
    }
}

/// How many elements of the buffer are not `expected`.
fn wrong(buffer: &Buffer<u32, &Stream>, expected: u32) -> usize {
    buffer.to_vec().unwrap().iter().filter(|element| **element != expected).count()
}

#[test]
#[ignore = "needs a GPU"]
fn kernels_get_their_arguments_and_their_elements() {
    let gpu = Gpu::new();
    let (stream, other) = (gpu.stream(), gpu.stream());
    let a: Vec<u32> = (0..1000).collect();
    let first = gpu.pool.alloc_from_host(&a, &stream).unwrap();
    // At home elsewhere, so that the launch is fenced.
    let second = gpu.pool.alloc_from_host(&a, &other).unwrap();
    let mut sum = gpu.pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    let arguments = (&mut sum, &first, second.as_slice(), 5_u32, 1000_u32);
    // SAFETY: the kernel's parameters are of these types, and it stays within 1000 elements of each.
    unsafe { gpu.add.launch(&stream, LaunchConfig::for_elements(1000, 128), &arguments) }.unwrap();
    let expected: Vec<u32> = a.iter().map(|x| 2 * x + 5).collect();
    assert_eq!(sum.to_vec().unwrap(), expected);
}

#[test]
#[ignore = "needs a GPU"]
fn d1_copies_between_homes_see_the_source_as_it_was() {
    let gpu = Gpu::new();
    let (home, other) = (gpu.stream(), gpu.stream());
    let mut bad = 0;
    for time in 0..TIMES {
        let mut source = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        let mut target = gpu.pool.alloc_zeroed::<u32, _>(LEN, &other).unwrap();
        other.synchronize().unwrap();
        gpu.spin(&home);
        source.fill(time).unwrap();
        target.copy_from(source.as_slice()).unwrap();
        // Freed, and its memory used again at once: all of it behind the copy.
        drop(source);
        let mut next = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        next.fill(!time).unwrap();
        bad += wrong(&target, time) + wrong(&next, !time);
    }
    assert_eq!(bad, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn d1_without_the_first_fence_the_copy_is_too_early() {
    let gpu = Gpu::new();
    let (home, other) = (gpu.stream(), gpu.stream());
    let mut early = 0;
    for time in 1..=20 {
        let mut source = gpu.pool.alloc_zeroed::<u32, _>(LEN, &home).unwrap();
        let target = gpu.pool.alloc_zeroed::<u32, _>(LEN, &other).unwrap();
        gpu.context.synchronize().unwrap();
        gpu.spin(&home);
        source.fill(time).unwrap();
        // SAFETY: both allocations are live and as long; that nothing orders them is the point.
        let copied = unsafe {
            (home.driver().functions().cuMemcpyDtoDAsync)(target.as_raw(), source.as_raw(), LEN * 4, other.as_raw())
        };
        assert_eq!(copied.0, 0);
        early += usize::from(wrong(&target, time) > 0);
        gpu.context.synchronize().unwrap();
    }
    assert!(early > 0, "the races of these tests are not races");
}

#[test]
#[ignore = "needs a GPU"]
fn d1_without_the_second_fence_the_memory_is_used_again_too_early() {
    let gpu = Gpu::new();
    let (home, other) = (gpu.stream(), gpu.stream());
    let mut early = 0;
    for time in 1..=20 {
        let mut source = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        let target = gpu.pool.alloc_zeroed::<u32, _>(LEN, &other).unwrap();
        source.fill(time).unwrap();
        gpu.context.synchronize().unwrap();
        gpu.spin(&other);
        // SAFETY: both allocations are live and as long; that the source is freed with nothing to order that is the
        // point.
        let copied = unsafe {
            (home.driver().functions().cuMemcpyDtoDAsync)(target.as_raw(), source.as_raw(), LEN * 4, other.as_raw())
        };
        assert_eq!(copied.0, 0);
        drop(source);
        let mut next = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        next.fill(!time).unwrap();
        early += usize::from(wrong(&target, time) > 0);
        gpu.context.synchronize().unwrap();
    }
    assert!(early > 0, "the races of these tests are not races");
}

#[test]
#[ignore = "needs a GPU"]
fn d1_a_loan_is_behind_home_and_home_behind_the_loan() {
    let gpu = Gpu::new();
    let (home, other) = (gpu.stream(), gpu.stream());
    let mut bad = 0;
    for time in 0..TIMES {
        let mut buffer = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        let mut seen = gpu.pool.alloc_zeroed::<u32, _>(LEN, &other).unwrap();
        gpu.spin(&home);
        buffer.fill(time).unwrap();
        let mut loan = buffer.on(&other).unwrap();
        seen.copy_from(loan.as_slice()).unwrap();
        gpu.spin(&other);
        loan.as_mut_slice().fill(!time).unwrap();
        drop(loan);
        bad += wrong(&buffer, !time) + wrong(&seen, time);
    }
    assert_eq!(bad, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn d1_several_readers_are_done_before_the_memory_is_used_again() {
    let gpu = Gpu::new();
    let (home, readers) = (gpu.stream(), [gpu.stream(), gpu.stream(), gpu.stream()]);
    let mut bad = 0;
    for time in 0..TIMES {
        let mut buffer = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        buffer.fill(time).unwrap();
        let mut copies: Vec<_> = readers.iter().map(|reader| gpu.pool.alloc::<u32, _>(LEN, reader).unwrap()).collect();
        for (reader, copy) in readers.iter().zip(&mut copies) {
            let loan = buffer.read_on(reader).unwrap();
            gpu.spin(reader);
            copy.copy_from(loan.as_slice()).unwrap();
        }
        drop(buffer);
        let mut next = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        next.fill(!time).unwrap();
        bad += wrong(&next, !time) + copies.iter().map(|copy| wrong(copy, time)).sum::<usize>();
    }
    assert_eq!(bad, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn a_buffer_that_moved_is_behind_its_old_home() {
    let gpu = Gpu::new();
    let (home, other) = (gpu.stream(), gpu.stream());
    let mut bad = 0;
    for time in 0..TIMES {
        let mut buffer = gpu.pool.alloc::<u32, _>(LEN, &home).unwrap();
        gpu.spin(&home);
        buffer.fill(time).unwrap();
        let buffer = buffer.move_to(&other).map_err(|(error, _)| error).unwrap();
        bad += wrong(&buffer, time);
    }
    assert_eq!(bad, 0);
}

/// Copies each of `sources` to the device behind a busy stream, overwrites it as soon as the call is back, and counts
/// the elements that arrived too late.
fn late(gpu: &Gpu, sources: &mut [&mut [u32]], times: u32) -> usize {
    let stream = gpu.stream();
    let mut late = 0;
    for time in 0..times {
        for source in sources.iter_mut() {
            source.fill(time);
            let mut buffer = gpu.pool.alloc::<u32, _>(source.len(), &stream).unwrap();
            gpu.spin(&stream);
            buffer.copy_from_host(source).unwrap();
            source.fill(!time);
            late += wrong(&buffer, time);
        }
    }
    late
}

#[test]
#[ignore = "needs a GPU"]
fn e1_slices_of_every_kind_may_change_as_soon_as_the_copy_returns() {
    let gpu = Gpu::new();
    let mut pinned = PinnedBuffer::<u32>::new(&gpu.context, LEN).unwrap();
    let mut registered = Registered::from_vec(&gpu.context, vec![0_u32; LEN]).unwrap();
    let mut ordinary = vec![0_u32; LEN];
    let small = &mut [0_u32; 1000][..];
    let mut sources = vec![pinned.as_mut_slice().unwrap(), &mut registered[..], &mut ordinary[..], small];
    // Large ones, which the driver copies: of ordinary memory, and with a registered part.
    let mut large: [_; 4] = core::array::from_fn(|_| vec![0_u32; 8 * LEN]);
    let [_, first, middle, last] = &mut large;
    let _registered = [(first, 0), (middle, 4 * LEN), (last, 7 * LEN)]
        .map(|(source, start)| RegisteredPart::of(&gpu.context, source, start, LEN));
    sources.extend(large.iter_mut().map(|source| &mut source[..]));
    assert_eq!(late(&gpu, &mut sources, TIMES / 4), 0);
    for (time, target) in sources.iter_mut().enumerate() {
        let stream = gpu.stream();
        let mut buffer = gpu.pool.alloc::<u32, _>(target.len(), &stream).unwrap();
        gpu.spin(&stream);
        buffer.fill(time as u32).unwrap();
        buffer.copy_to_host(target).unwrap();
        assert!(target.iter().all(|element| *element == time as u32), "target {time} was not filled yet");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn e1_the_drivers_own_copy_is_late_from_pinned_memory() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let mut pinned = PinnedBuffer::<u32>::new(&gpu.context, LEN).unwrap();
    pinned.as_mut_slice().unwrap().fill(1);
    let buffer = gpu.pool.alloc::<u32, _>(LEN, &stream).unwrap();
    gpu.spin(&stream);
    let source = pinned.as_raw();
    // SAFETY: both are live and as long; that the source changes under the copy is the point.
    let copied = unsafe {
        (stream.driver().functions().cuMemcpyHtoDAsync)(buffer.as_raw(), source.cast(), LEN * 4, stream.as_raw())
    };
    assert_eq!(copied.0, 0);
    // SAFETY: the memory is owned by `pinned`, and borrowed by nobody.
    unsafe { ptr::write_bytes(source, 0xff, LEN) };
    assert!(wrong(&buffer, 1) > 0, "the races of these tests are not races");
}

#[test]
#[ignore = "needs a GPU"]
fn e2_pinned_memory_is_waited_for_by_those_who_look_and_by_nobody_else() {
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let (mut bad, mut longest) = (0, Duration::ZERO);
    for time in 0..TIMES {
        let mut host = PinnedBuffer::from_slice(&gpu.context, &vec![time; LEN]).unwrap();
        let mut buffer = gpu.pool.alloc::<u32, _>(LEN, &stream).unwrap();
        gpu.spin(&stream);
        let start = Instant::now();
        buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
        longest = longest.max(start.elapsed());
        host.as_mut_slice().unwrap().fill(!time);
        buffer.as_slice().copy_to_pinned(&mut host).unwrap();
        bad += host.as_slice().unwrap().iter().filter(|element| **element != time).count();
        gpu.spin(&stream);
        buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
        // In the middle of the copy: the memory stays until it is done.
        drop(host);
        bad += wrong(&buffer, time);
    }
    assert_eq!(bad, 0);
    assert!(longest < SPIN / 2, "a pinned copy kept the host waiting for {longest:?}");
}

#[test]
#[ignore = "needs a GPU"]
fn host_functions_run_in_stream_order() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let gpu = Gpu::new();
    let stream = gpu.stream();
    let (start, end) = (TimedEvent::new(&gpu.context).unwrap(), TimedEvent::new(&gpu.context).unwrap());
    start.record(&stream).unwrap();
    gpu.spin(&stream);
    end.record(&stream).unwrap();
    stream.call_host(|| SEEN.store(1, Ordering::Release)).unwrap();
    assert_eq!(SEEN.load(Ordering::Acquire), 0);
    stream.synchronize().unwrap();
    assert_eq!(SEEN.load(Ordering::Acquire), 1);
    let elapsed = end.elapsed_ms_since(&start).unwrap();
    assert!((19.0..40.0).contains(&elapsed), "{elapsed} ms");
}

#[test]
#[ignore = "needs a GPU"]
fn b7_threads_make_use_and_drop_everything_at_once() {
    let seconds = env::var("CUPOOL_STRESS_SECONDS").map_or(5, |seconds| seconds.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(seconds);
    let failures = release_failures();
    let gpu = Arc::new(Gpu::new());
    let threads: Vec<_> = (0..64_u32)
        .map(|number| {
            let gpu = Arc::clone(&gpu);
            thread::spawn(move || {
                let mut rounds = 0_u64;
                while Instant::now() < until {
                    round(&gpu, number, rounds as u32);
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    let rounds: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("64 threads, {seconds} s, {rounds} rounds");
    assert!(rounds >= 64);
    assert_eq!(release_failures(), failures);
}

fn round(gpu: &Gpu, number: u32, round: u32) {
    let device = gpu.context.device();
    let context = device.primary_context().unwrap();
    let (stream, other) = (Arc::new(Stream::new(&context).unwrap()), Stream::new(&context).unwrap());
    let own = MemPool::with_properties(&device, &MemPoolProperties::new().max_size(64 << 20)).unwrap();
    let pool = if round.is_multiple_of(4) { &own } else { &gpu.pool };
    let value = number << 16 | round & 0xffff;
    let mut buffer: Buffer<u32> = pool.alloc(1000, Arc::clone(&stream)).unwrap();
    buffer.fill(value).unwrap();
    let mut copy = pool.alloc_zeroed::<u32, _>(1000, &other).unwrap();
    copy.copy_from(buffer.as_slice()).unwrap();
    buffer.on(&other).unwrap().as_mut_slice().fill(!value).unwrap();
    let event = Event::new(&context).unwrap();
    event.record(&stream).unwrap();
    other.wait(&event).unwrap();
    let mut pinned = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
    copy.as_slice().copy_to_pinned(&mut pinned).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [value; 1000]);
    assert_eq!(buffer.to_vec().unwrap(), [!value; 1000]);
    if round.is_multiple_of(8) {
        pool.trim_to(0).unwrap();
    }
}
