//! A driver for one run of a test, and the proof at its end that nothing was left behind.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ffi::c_void,
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cupool::{
    Buffer, Context, Device, Driver, MemPool, MemPoolProperties, Stream,
    cuda_sys::{
        CUcontext, CUdeviceptr_v2, CUevent, CUmemoryPool, CUresult, CUstream, CUstreamCaptureMode,
        CUstreamCaptureStatus, Functions,
    },
};
use cupool_sim::{Live, Simulator};
use shuttle::{
    Config, Runner,
    rand::{RngCore, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, ThreadId},
};

/// Runs `test` in many orders of its threads.
pub(crate) fn check(test: impl Fn() + Send + Sync + 'static) {
    check_some(1, test);
}

/// The same for a test that is slow: in one of `part` as many orders.
pub(crate) fn check_some(part: usize, test: impl Fn() + Send + Sync + 'static) {
    const SEED: u64 = 0x5EED;
    let schedules = std::env::var("CUPOOL_SCHEDULES").map_or(3000, |count| count.parse::<usize>().unwrap()) / part;
    let test = Arc::new(test);
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    config.silence_warnings = true;
    let again = Arc::clone(&test);
    Runner::new(RandomScheduler::new_from_seed(SEED, schedules.div_ceil(2)), config.clone()).run(move || again());
    Runner::new(PctScheduler::new_from_seed(SEED, 3, schedules.div_ceil(2)), config).run(move || test());
}

/// One of `count` choices, which are part of the order that is replayed after a failure.
pub(crate) fn choose(count: u64) -> u64 {
    thread_rng().next_u64() % count
}

/// Held by tests that count, or add to, what the process counts: releases that failed.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the run under way on this thread needs beside its simulator. Shuttle runs all threads of a test on one.
#[derive(Default)]
struct Run {
    functions: Option<&'static Functions>,
    /// Looked at where another thread may go first.
    point: Arc<AtomicBool>,
    /// The thread whose driver state (current context, capture mode) is changed, and how many changes deep. The
    /// simulator keeps that state for the one real thread, so nobody else may run until it is restored.
    within: Option<(ThreadId, usize)>,
    events: BTreeSet<usize>,
    made: usize,
    queries: Queries,
}

/// What is answered where somebody asks whether an event is over.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Queries {
    #[default]
    AsTheyAre,
    /// Sometimes not yet, as a device that is late would.
    SometimesLate,
    AlwaysLate,
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::new(Run::default());
}

/// Another thread may go first here.
fn switch() {
    let point = RUN.with_borrow(|run| run.within.is_none().then(|| Arc::clone(&run.point)));
    if let Some(point) = point {
        point.load(Ordering::SeqCst);
    }
}

/// No other thread may run until [`leave`].
fn enter() {
    let me = thread::current().id();
    RUN.with_borrow_mut(|run| {
        let (thread, depth) = run.within.get_or_insert((me, 0));
        assert_eq!(*thread, me, "a thread runs while another has changed the driver's state for its own");
        *depth += 1;
    });
}

fn leave() {
    let me = thread::current().id();
    RUN.with_borrow_mut(|run| {
        let (thread, depth) = run.within.take().expect("a state is restored that was not changed");
        assert_eq!(thread, me, "a thread runs while another has changed the driver's state for its own");
        run.within = (depth > 1).then_some((thread, depth - 1));
    });
}

fn real() -> &'static Functions {
    RUN.with_borrow(|run| run.functions).expect("a run has begun")
}

macro_rules! switching {
    ($( $need:ident $name:ident($($arg:ident: $type:ty),*); )*) => {
        #[allow(non_snake_case, reason = "named as the driver names them")]
        mod switching {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $name($($arg: $type),*) -> CUresult {
                    switch();
                    // SAFETY: the caller owes what the entry point asks.
                    unsafe { (switching!(@$need real().$name))($($arg),*) }
                }
            )*
        }

        /// The driver's functions, with a place before each call where another thread may go first.
        const fn switching(functions: &Functions) -> Functions {
            Functions {
                $( $name: switching!(@wrap $need switching::$name), )*
                cuCtxPushCurrent: push,
                cuCtxPopCurrent: pop,
                cuThreadExchangeStreamCaptureMode: Some(exchange),
                cuEventCreate: create,
                cuEventDestroy: destroy,
                cuEventQuery: query,
                ..*functions
            }
        }
    };
    (@required $function:expr) => { $function };
    (@optional $function:expr) => { $function.unwrap() };
    (@wrap required $function:path) => { $function };
    (@wrap optional $function:path) => { Some($function) };
}

// What asks for a current context, or for a capture mode, is done at once with the change of that state.
switching! {
    required cuStreamDestroy(stream: CUstream);
    required cuStreamSynchronize(stream: CUstream);
    required cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32);
    optional cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus);
    required cuEventRecord(event: CUevent, stream: CUstream);
    required cuMemcpyHtoDAsync(target: CUdeviceptr_v2, source: *const c_void, bytes: usize, stream: CUstream);
    required cuMemcpyDtoHAsync(target: *mut c_void, source: CUdeviceptr_v2, bytes: usize, stream: CUstream);
    required cuMemcpyDtoDAsync(target: CUdeviceptr_v2, source: CUdeviceptr_v2, bytes: usize, stream: CUstream);
    required cuMemsetD32Async(target: CUdeviceptr_v2, value: u32, count: usize, stream: CUstream);
    required cuMemAllocFromPoolAsync(pointer: *mut CUdeviceptr_v2, bytes: usize, pool: CUmemoryPool, stream: CUstream);
    required cuMemFreeAsync(pointer: CUdeviceptr_v2, stream: CUstream);
    required cuMemPoolDestroy(pool: CUmemoryPool);
}

unsafe extern "C" fn push(context: CUcontext) -> CUresult {
    switch();
    // SAFETY: the caller owes what the entry point asks; so below.
    let answer = unsafe { (real().cuCtxPushCurrent)(context) };
    if answer == CUresult::CUDA_SUCCESS {
        enter();
    }
    answer
}

unsafe extern "C" fn pop(context: *mut CUcontext) -> CUresult {
    // SAFETY: see `push`.
    let answer = unsafe { (real().cuCtxPopCurrent)(context) };
    leave();
    answer
}

unsafe extern "C" fn exchange(mode: *mut CUstreamCaptureMode) -> CUresult {
    // SAFETY: the caller passes a mode.
    let begins = unsafe { *mode } == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    if begins {
        switch();
    }
    // SAFETY: see `push`.
    let answer = unsafe { (real().cuThreadExchangeStreamCaptureMode.unwrap())(mode) };
    if begins {
        enter()
    } else {
        leave()
    }
    answer
}

unsafe extern "C" fn create(event: *mut CUevent, flags: u32) -> CUresult {
    // SAFETY: see `push`.
    let answer = unsafe { (real().cuEventCreate)(event, flags) };
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has written it.
        let event = unsafe { *event }.addr();
        RUN.with_borrow_mut(|run| {
            run.made += 1;
            assert!(run.events.insert(event), "the driver hands out an event twice");
        });
    }
    answer
}

unsafe extern "C" fn destroy(event: CUevent) -> CUresult {
    switch();
    RUN.with_borrow_mut(|run| assert!(run.events.remove(&event.addr()), "an event is destroyed twice"));
    // SAFETY: see `push`.
    unsafe { (real().cuEventDestroy)(event) }
}

unsafe extern "C" fn query(event: CUevent) -> CUresult {
    let late = match RUN.with_borrow(|run| run.queries) {
        Queries::AsTheyAre => false,
        Queries::SometimesLate => choose(2) == 0,
        Queries::AlwaysLate => true,
    };
    // SAFETY: see `push`.
    match unsafe { (real().cuEventQuery)(event) } {
        CUresult::CUDA_SUCCESS if late => CUresult::CUDA_ERROR_NOT_READY,
        answer => answer,
    }
}

/// A simulated driver, a context and a pool.
pub(crate) struct World {
    pub(crate) simulator: Simulator,
    pub(crate) context: Context,
    pub(crate) pool: MemPool,
    /// Retained apart, so that what a context leaves behind does not go with it.
    kept: Context,
}

/// What a test leaves behind on purpose.
#[derive(Clone, Copy, Default)]
pub(crate) struct Left {
    pub(crate) allocations: usize,
    pub(crate) events: usize,
    pub(crate) host_allocations: usize,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_pool_of(16 << 20)
    }

    /// With a pool that cannot hold more.
    pub(crate) fn with_pool_of(max_size: usize) -> Self {
        // Made once for each of the simulator's own tables, and kept for ever.
        static TABLES: Mutex<BTreeMap<usize, &'static Functions>> = Mutex::new(BTreeMap::new());
        let simulator = Simulator::builder().seed(choose(4)).record_calls(false).build();
        let functions = simulator.functions();
        RUN.replace(Run { functions: Some(functions), ..Run::default() });
        let table = *TABLES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(ptr::from_ref(functions).addr())
            .or_insert_with(|| Box::leak(Box::new(switching(functions))));
        // SAFETY: every entry behaves as the driver's, and answers that the driver has shut down once the simulator
        // is dropped.
        let driver = unsafe { Driver::from_functions(table) };
        let device: Device = driver.device(0).unwrap();
        Self {
            simulator,
            context: device.primary_context().unwrap(),
            pool: MemPool::with_properties(&device, &MemPoolProperties::new().max_size(max_size)).unwrap(),
            kept: device.primary_context().unwrap(),
        }
    }

    pub(crate) fn stream(&self) -> Arc<Stream> {
        Arc::new(Stream::new(&self.context).unwrap())
    }

    pub(crate) fn filled(&self, stream: &Arc<Stream>, value: u32) -> Buffer<u32> {
        let mut buffer = self.pool.alloc(LEN, Arc::clone(stream)).unwrap();
        buffer.fill(value).unwrap();
        buffer
    }

    /// A second retain of the context, with blocks of its own.
    pub(crate) const fn kept(&self) -> &Context {
        &self.kept
    }

    /// What is answered where somebody asks whether an event is over.
    pub(crate) fn answer_queries(&self, queries: Queries) {
        RUN.with_borrow_mut(|run| run.queries = queries);
    }

    /// Events that live, and events that were ever made.
    pub(crate) fn events(&self) -> (usize, usize) {
        RUN.with_borrow(|run| (run.events.len(), run.made))
    }

    /// Ends the run: the driver must have found no misuse, and hold nothing but what is left on purpose.
    #[track_caller]
    pub(crate) fn end(self, left: Left) {
        let Self { simulator, context, pool, kept } = self;
        simulator.clear_faults();
        let driver = context.driver();
        drop((context, pool));
        kept.synchronize().unwrap();
        let waiting = MemPool::destroy_dropped(driver).unwrap();
        let findings = simulator.findings();
        assert!(findings.is_empty(), "{findings:?}");
        let Live { allocations, events, host_allocations, pushed_contexts, streams, pools, .. } = simulator.live();
        assert_eq!(allocations, left.allocations, "allocations");
        assert_eq!(events, left.events, "events");
        assert_eq!(RUN.with_borrow(|run| run.events.len()), left.events, "events");
        assert_eq!(host_allocations, left.host_allocations, "page-locked memory");
        assert_eq!((pushed_contexts, streams), (0, 0));
        // The pool is kept as long as it holds memory.
        let kept_pools = usize::from(left.allocations > 0);
        assert_eq!((pools, waiting), (kept_pools, kept_pools), "pools");
        drop(kept);
        assert_eq!(simulator.live().primary_retains, 0);
        assert!(RUN.with_borrow(|run| run.within.is_none()));
    }
}

/// Elements of the tests' buffers.
pub(crate) const LEN: usize = 16;
