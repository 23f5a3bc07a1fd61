//! A driver of which the calls that are counted do next to nothing, and what operations are done with.

use cupool::{
    Buffer, Driver, Event, MemPool, Stream,
    cuda_sys::{CUdeviceptr_v2, CUevent, CUmemoryPool, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus},
};
use cupool_sim::Simulator;

const OK: CUresult = CUresult::CUDA_SUCCESS;

unsafe extern "C" fn allocate(address: *mut CUdeviceptr_v2, _: usize, _: CUmemoryPool, _: CUstream) -> CUresult {
    // SAFETY: both forms pass a local variable.
    unsafe { *address = 0x1000 };
    OK
}

unsafe extern "C" fn free(_: CUdeviceptr_v2, _: CUstream) -> CUresult {
    OK
}

unsafe extern "C" fn copy(_: CUdeviceptr_v2, _: CUdeviceptr_v2, _: usize, _: CUstream) -> CUresult {
    OK
}

unsafe extern "C" fn fill(_: CUdeviceptr_v2, _: u8, _: usize, _: CUstream) -> CUresult {
    OK
}

unsafe extern "C" fn of_event(_: CUevent) -> CUresult {
    OK
}

unsafe extern "C" fn record(_: CUevent, _: CUstream) -> CUresult {
    OK
}

unsafe extern "C" fn wait(_: CUstream, _: CUevent, _: u32) -> CUresult {
    OK
}

unsafe extern "C" fn of_stream(_: CUstream) -> CUresult {
    OK
}

unsafe extern "C" fn is_capturing(_: CUstream, status: *mut CUstreamCaptureStatus) -> CUresult {
    // SAFETY: both forms pass a local variable.
    unsafe { *status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE };
    OK
}

unsafe extern "C" fn exchange(_: *mut CUstreamCaptureMode) -> CUresult {
    OK
}

/// What operations are done with. It lives to the end of the process.
pub(crate) struct World {
    pub(crate) pool: &'static MemPool,
    pub(crate) home: &'static Stream,
    pub(crate) other: &'static Stream,
    pub(crate) event: Event,
    pub(crate) source: Buffer<u8, &'static Stream>,
    pub(crate) target: Option<Buffer<u8, &'static Stream>>,
}

#[allow(clippy::expect_used, reason = "a program for tests")]
pub(crate) fn world() -> World {
    let simulator = Box::leak(Box::new(Simulator::new()));
    let mut functions = *simulator.functions();
    functions.cuMemAllocFromPoolAsync = allocate;
    functions.cuMemFreeAsync = free;
    functions.cuMemcpyDtoDAsync = copy;
    functions.cuMemsetD8Async = fill;
    functions.cuEventQuery = of_event;
    functions.cuEventSynchronize = of_event;
    functions.cuEventRecord = record;
    functions.cuStreamWaitEvent = wait;
    functions.cuStreamQuery = of_stream;
    functions.cuStreamSynchronize = of_stream;
    functions.cuStreamIsCapturing = Some(is_capturing);
    functions.cuThreadExchangeStreamCaptureMode = Some(exchange);
    // SAFETY: the simulator's functions behave as the driver's, and what the others hand out nobody touches.
    let driver = unsafe { Driver::from_functions(Box::leak(Box::new(functions))) };
    let context = driver.device(0).and_then(cupool::Device::primary_context).expect("a simulated context");
    let stream = || -> &'static Stream { Box::leak(Box::new(Stream::new(&context).expect("a simulated stream"))) };
    let (home, other) = (stream(), stream());
    let pool = Box::leak(Box::new(MemPool::new(&context.device()).expect("a simulated pool")));
    let event = Event::new(&context).expect("a simulated event");
    let buffer = || pool.alloc(64, home).expect("an allocation of nothing");
    let (source, target) = (buffer(), Some(buffer()));
    World { pool, home, other, event, source, target }
}
