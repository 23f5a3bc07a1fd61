//! Which of the driver's calls a capture elsewhere forbids, and what becomes of the capture: asked of the driver itself,
//! call by call, in its ordinary mode and in the relaxed one. Prints a table with `--nocapture`.
//!
//! What the crate does not wrap in the relaxed mode must be harmless without, and what it wraps must be harmless with it.
#![expect(clippy::undocumented_unsafe_blocks, reason = "one for each row: the objects are live, the memory as large")]

use core::ptr;
use std::thread;

use cupool::{
    Context, Driver, Event, Graph, MemPool, Stream,
    cuda_sys::{
        CUdevice_attribute, CUgraphExec, CUmemPool_attribute, CUresult, CUstream_flags_enum, CUstreamCaptureMode,
        Functions,
    },
};

use crate::fixture::Fixture;

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// What the calls are made with: nothing of it is captured.
struct Objects {
    functions: &'static Functions,
    context: Context,
    stream: Stream,
    other: Stream,
    event: Event,
    /// Has made and freed such allocations before.
    warm: MemPool,
    memory: u64,
    exec: CUgraphExec,
}

// SAFETY: one thread at a time uses them.
unsafe impl Sync for Objects {}

/// How the crate makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// As it is, so it must be harmless as it is.
    Plain,
    /// In the relaxed mode, always or beside captures that are known of.
    Relaxed,
    /// By nobody here: for the table only.
    Never,
}

type Call = fn(&Objects) -> CUresult;

const BYTES: usize = 1 << 16;

const CALLS: &[(&str, Made, Call)] = &[
    ("cuMemAllocFromPoolAsync, from a warm pool", Made::Relaxed, |o| allocate(o, &o.warm, BYTES)),
    ("cuMemAllocFromPoolAsync, from a pool that must grow", Made::Relaxed, |o| allocate(o, &o.warm, 40 << 20)),
    ("cuMemFreeAsync", Made::Relaxed, |o| {
        let mut address = 0;
        let relaxed = mode(o.functions, RELAXED);
        // SAFETY: pool and stream are live.
        let made = unsafe {
            (o.functions.cuMemAllocFromPoolAsync)(&raw mut address, BYTES, o.warm.as_raw(), o.stream.as_raw())
        };
        mode(o.functions, relaxed);
        assert_eq!(made, CUresult::CUDA_SUCCESS);
        // SAFETY: just allocated on this stream.
        let free = || unsafe { (o.functions.cuMemFreeAsync)(address, o.stream.as_raw()) };
        let code = free();
        if code != CUresult::CUDA_SUCCESS {
            let before = mode(o.functions, RELAXED);
            assert_eq!(free(), CUresult::CUDA_SUCCESS, "refused, so still there");
            mode(o.functions, before);
        }
        code
    }),
    ("cuMemsetD8Async", Made::Plain, |o| unsafe {
        (o.functions.cuMemsetD8Async)(o.memory, 1, BYTES, o.stream.as_raw())
    }),
    ("cuMemcpyDtoDAsync", Made::Plain, |o| unsafe {
        (o.functions.cuMemcpyDtoDAsync)(o.memory, o.memory + BYTES as u64, BYTES, o.stream.as_raw())
    }),
    ("cuMemcpyHtoDAsync, pageable", Made::Never, |o| unsafe {
        (o.functions.cuMemcpyHtoDAsync)(o.memory, [7_u8; 64].as_ptr().cast(), 64, o.stream.as_raw())
    }),
    ("cuEventRecord", Made::Plain, |o| unsafe { (o.functions.cuEventRecord)(o.event.as_raw(), o.stream.as_raw()) }),
    ("cuStreamWaitEvent", Made::Plain, |o| unsafe {
        (o.functions.cuStreamWaitEvent)(o.other.as_raw(), o.event.as_raw(), 0)
    }),
    ("cuEventQuery", Made::Relaxed, |o| ready(unsafe { (o.functions.cuEventQuery)(o.event.as_raw()) })),
    ("cuEventSynchronize", Made::Relaxed, |o| unsafe { (o.functions.cuEventSynchronize)(o.event.as_raw()) }),
    ("cuStreamQuery", Made::Relaxed, |o| ready(unsafe { (o.functions.cuStreamQuery)(o.stream.as_raw()) })),
    ("cuStreamSynchronize", Made::Relaxed, |o| unsafe { (o.functions.cuStreamSynchronize)(o.stream.as_raw()) }),
    ("cuStreamCreate and cuStreamDestroy", Made::Plain, |o| {
        let (mut stream, flags) = (ptr::null_mut(), CUstream_flags_enum::CU_STREAM_NON_BLOCKING.0);
        match unsafe { (o.functions.cuStreamCreateWithPriority)(&raw mut stream, flags, 0) } {
            CUresult::CUDA_SUCCESS => unsafe { (o.functions.cuStreamDestroy)(stream) },
            code => code,
        }
    }),
    ("cuEventCreate and cuEventDestroy", Made::Plain, |o| {
        let mut event = ptr::null_mut();
        match unsafe { (o.functions.cuEventCreate)(&raw mut event, 2) } {
            CUresult::CUDA_SUCCESS => unsafe { (o.functions.cuEventDestroy)(event) },
            code => code,
        }
    }),
    ("cuMemPoolGetAttribute", Made::Relaxed, |o| {
        let (mut value, attribute) = (0_u64, CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        unsafe { (o.functions.cuMemPoolGetAttribute)(o.warm.as_raw(), attribute, (&raw mut value).cast()) }
    }),
    ("cuMemPoolSetAttribute", Made::Relaxed, |o| {
        let (mut value, attribute) = (u64::MAX, CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
        unsafe { (o.functions.cuMemPoolSetAttribute)(o.warm.as_raw(), attribute, (&raw mut value).cast()) }
    }),
    ("cuMemPoolTrimTo", Made::Relaxed, |o| unsafe { (o.functions.cuMemPoolTrimTo)(o.warm.as_raw(), usize::MAX) }),
    ("cuMemHostAlloc and cuMemFreeHost", Made::Relaxed, |o| {
        let mut memory = ptr::null_mut();
        match unsafe { o.functions.cuMemHostAlloc.unwrap()(&raw mut memory, 64, 0) } {
            CUresult::CUDA_SUCCESS => unsafe { o.functions.cuMemFreeHost.unwrap()(memory) },
            code => code,
        }
    }),
    ("cuGraphLaunch", Made::Plain, |o| unsafe { o.functions.cuGraphLaunch.unwrap()(o.exec, o.stream.as_raw()) }),
    ("cuDeviceGetAttribute", Made::Plain, |o| {
        let (mut value, attribute) = (0, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE);
        unsafe { (o.functions.cuDeviceGetAttribute)(&raw mut value, attribute, o.context.device().as_raw()) }
    }),
    ("cuMemGetInfo", Made::Never, |o| {
        let (mut free, mut total) = (0, 0);
        unsafe { o.functions.cuMemGetInfo.unwrap()(&raw mut free, &raw mut total) }
    }),
    ("cuMemAlloc and cuMemFree", Made::Never, |o| {
        let mut address = 0;
        match unsafe { o.functions.cuMemAlloc.unwrap()(&raw mut address, 64) } {
            CUresult::CUDA_SUCCESS => unsafe { o.functions.cuMemFree.unwrap()(address) },
            code => code,
        }
    }),
];

/// Allocates, and frees again in the mode that forbids nothing.
fn allocate(o: &Objects, pool: &MemPool, bytes: usize) -> CUresult {
    let mut address = 0;
    // SAFETY: pool and stream are live.
    let code =
        unsafe { (o.functions.cuMemAllocFromPoolAsync)(&raw mut address, bytes, pool.as_raw(), o.stream.as_raw()) };
    if code == CUresult::CUDA_SUCCESS {
        let before = mode(o.functions, RELAXED);
        // SAFETY: just allocated on this stream.
        assert_eq!(unsafe { (o.functions.cuMemFreeAsync)(address, o.stream.as_raw()) }, CUresult::CUDA_SUCCESS);
        mode(o.functions, before);
    }
    code
}

fn ready(code: CUresult) -> CUresult {
    if code == CUresult::CUDA_ERROR_NOT_READY { CUresult::CUDA_SUCCESS } else { code }
}

/// Exchanges this thread's mode.
fn mode(functions: &Functions, new: CUstreamCaptureMode) -> CUstreamCaptureMode {
    let mut mode = new;
    // SAFETY: the call exchanges one mode.
    let code = unsafe { functions.cuThreadExchangeStreamCaptureMode.unwrap()(&raw mut mode) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    mode
}

impl Objects {
    fn new(fixture: &Fixture) -> Self {
        let (driver, context): (Driver, Context) = (fixture.driver(), fixture.context());
        let (stream, warm) = (fixture.stream(), fixture.pool());
        let (graph, ()) = Graph::capture(&context, |_| Ok(())).unwrap();
        let mut exec = ptr::null_mut();
        // SAFETY: the graph is live.
        let instantiate =
            || Ok(unsafe { driver.functions().cuGraphInstantiateWithFlags.unwrap()(&raw mut exec, graph.as_raw(), 0) });
        assert_eq!(context.with_current(instantiate), Ok(CUresult::CUDA_SUCCESS));
        let memory = warm.alloc_zeroed::<u8, _>(2 * BYTES, &stream).unwrap().into_raw_parts().0;
        drop(warm.alloc::<u8, _>(BYTES, &stream).unwrap());
        let event = Event::new(&context).unwrap();
        event.record(&stream).unwrap();
        stream.synchronize().unwrap();
        Self { functions: driver.functions(), other: fixture.stream(), context, stream, event, warm, memory, exec }
    }

    /// The call's code, and that of the end of a capture beside which it was made.
    fn beside(
        &self,
        fixture: &Fixture,
        capture: CUstreamCaptureMode,
        own: CUstreamCaptureMode,
        elsewhere: bool,
        call: Call,
    ) -> [CUresult; 2] {
        let captured = fixture.stream();
        let made = || {
            let make = || {
                let before = mode(self.functions, own);
                let code = call(self);
                mode(self.functions, before);
                Ok(code)
            };
            self.context.with_current(make).unwrap()
        };
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is live.
        let begun = unsafe { self.functions.cuStreamBeginCapture.unwrap()(captured.as_raw(), capture) };
        assert_eq!(begun, CUresult::CUDA_SUCCESS);
        let code = if elsewhere { thread::scope(|scope| scope.spawn(made).join()).unwrap() } else { made() };
        // SAFETY: as above.
        let ended = unsafe { self.functions.cuStreamEndCapture.unwrap()(captured.as_raw(), &raw mut graph) };
        if !graph.is_null() {
            // SAFETY: the graph was just made.
            assert_eq!(unsafe { self.functions.cuGraphDestroy.unwrap()(graph) }, CUresult::CUDA_SUCCESS);
        }
        self.stream.synchronize().unwrap();
        [code, ended]
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: both were made by `new`, and nobody uses them any more.
        unsafe {
            self.functions.cuGraphExecDestroy.unwrap()(self.exec);
            (self.functions.cuMemFreeAsync)(self.memory, self.stream.as_raw());
        }
    }
}

#[test]
fn g2_what_is_not_wrapped_is_harmless_as_it_is_and_what_is_wrapped_is_in_the_relaxed_mode() {
    let fixture = Fixture::alone();
    let objects = Objects::new(&fixture);
    let places =
        [("another thread", GLOBAL, true), ("this thread", GLOBAL, false), ("this thread, local", THREAD_LOCAL, false)];
    let (mut harmful, mut needed) = (Vec::new(), 0);
    for (name, made, call) in CALLS {
        for (place, capture, elsewhere) in places {
            let plain = objects.beside(&fixture, capture, GLOBAL, elsewhere, *call);
            let relaxed = objects.beside(&fixture, capture, RELAXED, elsewhere, *call);
            let codes = |codes: [CUresult; 2]| format!("{:>3}, end {:>3}", codes[0].0, codes[1].0);
            println!("{name:<52} | {made:<7?} | {place:<18} | {} | relaxed {}", codes(plain), codes(relaxed));
            let whole = [CUresult::CUDA_SUCCESS; 2];
            needed += usize::from(*made == Made::Relaxed && plain != whole);
            if (*made == Made::Plain && plain != whole) || (*made == Made::Relaxed && relaxed != whole) {
                harmful.push((*name, place));
            }
        }
    }
    assert!(harmful.is_empty(), "{harmful:#?}");
    assert!(needed > 0, "the relaxed mode is not needed at all");
}
