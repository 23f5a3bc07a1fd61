//! Beside somebody's capture: nothing here ends it in an error, and nothing here becomes part of it.

use std::thread;

use cupool::{BesideCaptures, Error, Event, PinnedBuffer, Registered, Stream, cuda_sys::CUstreamCaptureMode};
use cupool_sim::CUresult;

use crate::fixture::{Fixture, assert_no_findings};

/// Captures in the mode that forbids most to all threads.
fn begin(stream: &Stream) {
    let begin = stream.driver().functions().cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Ends the capture, which must be whole.
fn end(stream: &Stream) {
    let functions = stream.driver().functions();
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live and captures, and the call writes one handle.
    let code = unsafe { functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph) };
    assert_eq!(code, CUresult::CUDA_SUCCESS, "the capture was spoilt");
    // SAFETY: the graph was just made, and is not used.
    assert_eq!(unsafe { functions.cuGraphDestroy.unwrap()(graph) }, CUresult::CUDA_SUCCESS);
}

/// All that a thread does beside it, with a stream of its own.
fn everything_beside(fixture: &Fixture) {
    let _beside = BesideCaptures::new(fixture.driver());
    let context = fixture.context();
    let stream = Stream::new(&context).unwrap();
    let mut pool = fixture.pool();
    pool.set_release_threshold(1 << 20).unwrap();
    pool.set_reuse_allow_opportunistic(true).unwrap();
    pool.reset_peaks().unwrap();
    let mut buffer = pool.alloc_from_host(&[1_u32; 100], &stream).unwrap();
    buffer.fill(2).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [2; 100]);
    let mut host = PinnedBuffer::<u32>::new(&context, 100).unwrap();
    buffer.copy_to_pinned(&mut host).unwrap();
    assert_eq!(host.as_slice().unwrap(), [2; 100]);
    drop(host);
    context.trim_pinned().unwrap();
    drop(Registered::from_vec(&context, vec![1_u8; 100]).unwrap());
    let event = Event::new(&context).unwrap();
    event.record(&stream).unwrap();
    event.query().unwrap();
    event.synchronize().unwrap();
    drop(buffer);
    pool.usage().unwrap();
    pool.trim_to(0).unwrap();
}

#[test]
fn g2_what_another_thread_does_with_pools_and_memory_leaves_a_global_capture_whole() {
    let fixture = Fixture::alone();
    let stream = fixture.stream();
    begin(&stream);
    thread::scope(|scope| drop(scope.spawn(|| everything_beside(&fixture))));
    end(&stream);
}

#[test]
fn g2_what_the_same_thread_does_on_another_stream_leaves_its_capture_whole() {
    let fixture = Fixture::alone();
    let stream = fixture.stream();
    begin(&stream);
    everything_beside(&fixture);
    end(&stream);
}

#[test]
fn g1_what_would_wait_for_a_captured_stream_is_refused_and_its_capture_stays_whole() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
    let mut host = PinnedBuffer::<u8>::new(&context, 100).unwrap();
    begin(&stream);
    let answers = [
        buffer.copy_from_host(&[1; 100]),
        buffer.copy_to_host(&mut [1; 100]),
        buffer.to_vec().map(drop),
        buffer.copy_from_pinned(&host),
        buffer.copy_to_pinned(&mut host),
        stream.call_host(|| {}),
    ];
    end(&stream);
    assert!(answers.iter().all(|answer| *answer == Err(Error::StreamCapturing)), "{answers:?}");
    // It is the stream's own capture that matters, not any in the process.
    let other = fixture.stream();
    begin(&other);
    let copied = buffer.copy_from_host(&[1; 100]).and_then(|()| buffer.to_vec());
    end(&other);
    assert_eq!(copied, Ok(vec![1; 100]));
}

/// The driver refuses to free such memory on a stream that captures. What is right is to free it later; what must not
/// happen is that the free becomes part of the graph, or spoils the capture.
#[test]
fn g3_a_buffer_dropped_while_its_stream_captures_is_never_freed_by_the_graph() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let (one, other) =
        (pool.alloc_zeroed::<u8, _>(100, &stream).unwrap(), pool.alloc_zeroed::<u8, _>(100, &stream).unwrap());
    begin(&stream);
    drop(one);
    let freed = other.free();
    end(&stream);
    assert!(freed.is_err(), "the driver took the free into the graph");
    stream.synchronize().unwrap();
    drop(pool.alloc_zeroed::<u8, _>(100, &stream).unwrap());
    assert_no_findings(fixture.sim());
}
