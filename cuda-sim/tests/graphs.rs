//! Stream capture and graphs.
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::ptr;

use cuda_sys::*;
use cupool_sim::Misuse;
use rig::{INVALID, OK, Rig, props, rig};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

fn begin(rig: &Rig, stream: CUstream, mode: CUstreamCaptureMode) {
    assert_eq!(unsafe { (rig.cuda.cuStreamBeginCapture.unwrap())(stream, mode) }, OK);
}

fn end(rig: &Rig, stream: CUstream) -> (CUresult, CUgraph) {
    let mut graph = ptr::dangling_mut();
    let code = unsafe { (rig.cuda.cuStreamEndCapture.unwrap())(stream, &mut graph) };
    (code, graph)
}

fn status(rig: &Rig, stream: CUstream) -> u32 {
    let mut status = CUstreamCaptureStatus(9);
    assert_eq!(unsafe { (rig.cuda.cuStreamIsCapturing.unwrap())(stream, &mut status) }, OK);
    status.0
}

fn instantiate(rig: &Rig, graph: CUgraph) -> Result<CUgraphExec, CUresult> {
    let mut exec = ptr::null_mut();
    match unsafe { (rig.cuda.cuGraphInstantiateWithFlags.unwrap())(&mut exec, graph, 0) } {
        OK => Ok(exec),
        code => Err(code),
    }
}

fn launch(rig: &Rig, exec: CUgraphExec, stream: CUstream) -> CUresult {
    unsafe { (rig.cuda.cuGraphLaunch.unwrap())(exec, stream) }
}

#[test]
fn captured_work_runs_at_each_launch() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(8, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 0, 8, stream), OK);
    assert_eq!(rig.sync(stream), OK);
    begin(&rig, stream, GLOBAL);
    assert_eq!(status(&rig, stream), 1);
    assert_eq!(rig.fill(pointer, 7, 8, stream), OK);
    let (code, graph) = end(&rig, stream);
    assert_eq!((code, status(&rig, stream)), (OK, 0));
    assert_eq!(rig.download(pointer, 8, stream), [0; 8]);
    let exec = instantiate(&rig, graph).unwrap();
    assert_eq!(unsafe { (rig.cuda.cuGraphDestroy.unwrap())(graph) }, OK);
    assert_eq!(launch(&rig, exec, stream), OK);
    assert_eq!(rig.download(pointer, 8, stream), [7; 8]);
    assert_eq!(unsafe { (rig.cuda.cuGraphExecDestroy.unwrap())(exec) }, OK);
    assert!(rig.sim.findings().is_empty());
    assert_eq!((rig.sim.live().graphs, rig.sim.live().graph_execs), (0, 0));
}

#[test]
fn a_shareable_pool_cannot_allocate_in_capture_and_the_graph_is_spoilt() {
    let rig = rig();
    let stream = rig.stream();
    let mut props = props();
    props.handleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let pool = rig.try_pool(&props).unwrap();
    begin(&rig, stream, THREAD_LOCAL);
    assert_eq!(rig.alloc(64, pool, stream), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    let (code, graph) = end(&rig, stream);
    assert_eq!(code, OK);
    assert_eq!(instantiate(&rig, graph), Err(INVALID));
}

#[test]
fn synchronising_a_capturing_stream_invalidates_the_capture() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(4096, pool, stream).unwrap();
    begin(&rig, stream, THREAD_LOCAL);
    assert_eq!(rig.free(pointer, stream), INVALID);
    assert_eq!(rig.sync(stream), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(status(&rig, stream), 2);
    assert_eq!(end(&rig, stream), (CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ptr::null_mut()));
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.sync(stream), OK);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn memory_of_a_graph_is_allocated_and_freed_by_each_launch() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let kept = rig.alloc(8, pool, stream).unwrap();
    begin(&rig, stream, GLOBAL);
    let pointer = rig.alloc(8, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 6, 8, stream), OK);
    assert_eq!(unsafe { (rig.cuda.cuMemcpyDtoDAsync)(kept, pointer, 8, stream) }, OK);
    assert_eq!(rig.free(pointer, stream), OK);
    let (code, graph) = end(&rig, stream);
    assert_eq!(code, OK);
    let exec = instantiate(&rig, graph).unwrap();
    for _ in 0..3 {
        assert_eq!(rig.fill(kept, 0, 8, stream), OK);
        assert_eq!(launch(&rig, exec, stream), OK);
        assert_eq!(rig.download(kept, 8, stream), [6; 8]);
    }
    assert_eq!(rig.used(pool), 8);
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
}

#[test]
fn memory_left_by_a_launch_must_be_freed_before_the_next() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    begin(&rig, stream, GLOBAL);
    let pointer = rig.alloc(8, pool, stream).unwrap();
    let exec = instantiate(&rig, end(&rig, stream).1).unwrap();
    assert_eq!(launch(&rig, exec, stream), OK);
    assert_eq!(launch(&rig, exec, stream), INVALID);
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(launch(&rig, exec, stream), OK);
    assert_eq!(rig.sync(stream), OK);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn streams_join_a_capture_by_events_and_must_be_joined_again() {
    let rig = rig();
    let (a, b) = (rig.stream(), rig.stream());
    let (fork, join) = (rig.event(2), rig.event(2));
    for joined in [true, false] {
        begin(&rig, a, GLOBAL);
        assert_eq!(rig.record(fork, a), OK);
        assert_eq!(rig.wait(b, fork), OK);
        assert_eq!(status(&rig, b), 1);
        assert_eq!(rig.record(join, b), OK);
        if joined {
            assert_eq!(rig.wait(a, join), OK);
        }
        let (code, _) = end(&rig, a);
        assert_eq!(code, if joined { OK } else { CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED });
        assert_eq!(status(&rig, b), 0);
    }
}

#[test]
fn pool_attributes_invalidate_captures_unless_the_thread_is_relaxed() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let exchange = |mode| {
        let mut mode = CUstreamCaptureMode(mode);
        assert_eq!(unsafe { (rig.cuda.cuThreadExchangeStreamCaptureMode.unwrap())(&mut mode) }, OK);
        mode.0
    };
    begin(&rig, stream, GLOBAL);
    assert_eq!(exchange(2), 0);
    assert_eq!(rig.used(pool), 0);
    assert_eq!(exchange(0), 2);
    assert_eq!(status(&rig, stream), 1);
    assert_eq!(rig.trim(pool), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(end(&rig, stream).0, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn the_legacy_stream_invalidates_captures_of_blocking_streams() {
    let rig = rig();
    let (stream, pool) = (rig.stream_with(0), rig.pool());
    let pointer = rig.alloc(8, pool, stream).unwrap();
    begin(&rig, stream, GLOBAL);
    assert_eq!(rig.fill(pointer, 1, 8, ptr::null_mut()), CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_eq!(end(&rig, stream).0, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_eq!(rig.sync(stream), OK);
}

#[test]
fn whether_the_legacy_stream_is_captured_cannot_be_said_beside_such_a_capture_which_stays_whole() {
    let rig = rig();
    let stream = rig.stream_with(0);
    begin(&rig, stream, GLOBAL);
    let mut of_legacy = CUstreamCaptureStatus(9);
    let ask = rig.cuda.cuStreamIsCapturing.unwrap();
    assert_eq!(unsafe { ask(ptr::null_mut(), &mut of_legacy) }, CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_eq!(status(&rig, stream), 1);
    assert_eq!(end(&rig, stream).0, OK);
    assert_eq!(status(&rig, ptr::null_mut()), 0);
}

#[test]
fn g5_memory_freed_between_capture_and_launch_is_found() {
    for again in [false, true] {
        let rig = rig();
        let (stream, pool) = (rig.stream(), rig.pool());
        let pointer = rig.alloc(64, pool, stream).unwrap();
        begin(&rig, stream, GLOBAL);
        assert_eq!(rig.fill(pointer, 1, 64, stream), OK);
        let exec = instantiate(&rig, end(&rig, stream).1).unwrap();
        assert_eq!(launch(&rig, exec, stream), OK);
        assert_eq!(rig.free(pointer, stream), OK);
        assert_eq!(rig.sync(stream), OK);
        assert!(rig.sim.findings().is_empty());
        if again {
            // Its number and a part of its place are another's now.
            assert_eq!(rig.alloc(8, pool, stream).unwrap(), pointer);
        }
        assert_eq!(launch(&rig, exec, stream), OK);
        assert_eq!(rig.sync(stream), OK);
        assert_eq!(rig.misuses(), [Misuse::UseAfterFree]);
    }
}

#[test]
fn memory_of_a_graph_that_is_no_more_is_kept_until_the_device_is_told_to_trim() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let of_graphs = |attribute| {
        let mut value = u64::MAX;
        let get = rig.cuda.cuDeviceGetGraphMemAttribute.unwrap();
        assert_eq!(unsafe { get(0, CUgraphMem_attribute(attribute), (&raw mut value).cast()) }, OK);
        value
    };
    let trim = || assert_eq!(unsafe { (rig.cuda.cuDeviceGraphMemTrim.unwrap())(0) }, OK);
    let figures = || [0, 2].map(of_graphs);
    assert_eq!(figures(), [0, 0]);
    begin(&rig, stream, GLOBAL);
    let pointer = rig.alloc(1 << 20, pool, stream).unwrap();
    assert_eq!(rig.free(pointer, stream), OK);
    let graph = end(&rig, stream).1;
    let exec = instantiate(&rig, graph).unwrap();
    assert_eq!(launch(&rig, exec, stream), OK);
    assert_eq!(unsafe { (rig.cuda.cuGraphDestroy.unwrap())(graph) }, OK);
    assert_eq!(unsafe { (rig.cuda.cuGraphExecDestroy.unwrap())(exec) }, OK);
    trim();
    // As on the driver: what is held counts as used.
    assert_eq!(figures(), [32 << 20; 2], "its work is still to be done");
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(figures(), [32 << 20; 2]);
    assert_eq!(rig.used(pool), 0);
    trim();
    assert_eq!(figures(), [0, 0]);
    assert_eq!([1, 3].map(of_graphs), [32 << 20; 2]);
    // One that never ran has nothing to wait for.
    begin(&rig, stream, GLOBAL);
    let pointer = rig.alloc(1 << 20, pool, stream).unwrap();
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(unsafe { (rig.cuda.cuGraphDestroy.unwrap())(end(&rig, stream).1) }, OK);
    trim();
    assert_eq!(figures(), [0, 0]);
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
}

#[test]
fn launches_that_are_enqueued_before_the_first_has_run_each_make_their_own_memory() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let kept = rig.alloc(8, pool, stream).unwrap();
    begin(&rig, stream, GLOBAL);
    let pointer = rig.alloc(8, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 6, 8, stream), OK);
    assert_eq!(unsafe { (rig.cuda.cuMemcpyDtoDAsync)(kept, pointer, 8, stream) }, OK);
    assert_eq!(rig.free(pointer, stream), OK);
    let exec = instantiate(&rig, end(&rig, stream).1).unwrap();
    for _ in 0..5 {
        assert_eq!(launch(&rig, exec, stream), OK);
    }
    assert_eq!(rig.download(kept, 8, stream), [6; 8]);
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
}

#[test]
fn a_launch_comes_after_the_one_before_on_another_stream_and_after_nothing_else_there() {
    let rig = rig();
    let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
    let pointer = rig.alloc(8, pool, a).unwrap();
    assert_eq!(rig.sync(a), OK);
    begin(&rig, a, GLOBAL);
    assert_eq!(rig.fill(pointer, 1, 8, a), OK);
    let exec = instantiate(&rig, end(&rig, a).1).unwrap();
    assert_eq!(launch(&rig, exec, a), OK);
    assert_eq!(launch(&rig, exec, b), OK);
    assert_eq!(rig.sync(b), OK);
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
    // What is behind the launch is not the launch.
    assert_eq!(rig.fill(pointer, 2, 8, b), OK);
    assert_eq!(launch(&rig, exec, a), OK);
    assert_eq!(rig.sync(a), OK);
    assert_eq!(rig.sync(b), OK);
    assert_eq!(rig.misuses(), [Misuse::DataRace]);
}

#[test]
fn of_a_graph_with_memory_there_is_one_instance_at_a_time_and_its_memory_goes_with_it() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let held = || rig.sim.live().reserved_bytes;
    let mut first = None;
    for _ in 0..3 {
        begin(&rig, stream, GLOBAL);
        let pointer = rig.alloc(3 << 20, pool, stream).unwrap();
        assert_eq!(rig.free(pointer, stream), OK);
        let graph = end(&rig, stream).1;
        let exec = instantiate(&rig, graph).unwrap();
        assert_eq!(instantiate(&rig, graph), Err(INVALID));
        assert_eq!(launch(&rig, exec, stream), OK);
        assert_eq!(unsafe { (rig.cuda.cuGraphExecDestroy.unwrap())(exec) }, OK);
        let again = instantiate(&rig, graph).unwrap();
        assert_eq!(unsafe { (rig.cuda.cuGraphDestroy.unwrap())(graph) }, OK);
        assert_eq!(unsafe { (rig.cuda.cuGraphExecDestroy.unwrap())(again) }, OK);
        assert_eq!(rig.sync(stream), OK);
        assert_eq!(held(), *first.get_or_insert(held()));
    }
    assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
    assert_eq!(rig.sim.live().allocations, 0);
}

#[test]
fn an_allocation_beside_a_capture_is_refused_and_spoils_it() {
    let rig = rig();
    let (captured, stream, pool) = (rig.stream(), rig.stream(), rig.pool());
    begin(&rig, captured, THREAD_LOCAL);
    assert_eq!(rig.alloc(64, pool, stream), Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(end(&rig, captured).0, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn a_capture_ends_with_the_stream_on_which_it_began() {
    let rig = rig();
    let (captured, stream, pool) = (rig.stream(), rig.stream(), rig.pool());
    begin(&rig, captured, GLOBAL);
    rig.alloc(64, pool, captured).unwrap();
    assert_eq!(unsafe { (rig.cuda.cuStreamDestroy)(captured) }, OK);
    // Nothing is captured that this could spoil.
    assert!(rig.alloc(64, pool, stream).is_ok());
}
