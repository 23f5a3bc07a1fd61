//! Beside somebody's capture: nothing here ends it in an error, and nothing here becomes part of it.

use std::thread;

use cupool::{
    Access, Buffer, Error, Event, MemPool, PinnedBuffer, Registered, RelaxedCaptureMode, Stream,
    cuda_sys::CUstreamCaptureMode, recent_release_failures, release_failures,
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::{Fixture, assert_no_findings};

/// Captures in the mode that forbids most to all threads.
pub(crate) fn begin(stream: &Stream) {
    let begin = stream.driver().functions().cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Ends the capture, which must be whole.
pub(crate) fn end(stream: &Stream) {
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
    let _beside = RelaxedCaptureMode::new(fixture.driver());
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
    under_pressure(fixture, &mut pool, &stream);
}

/// Limits, trims, access, graphs' memory, and the process's own pools.
fn under_pressure(fixture: &Fixture, pool: &mut MemPool, stream: &Stream) {
    let device = fixture.device();
    pool.trim_after(stream, 0).unwrap();
    pool.threshold_shortfall().unwrap();
    pool.set_soft_limit(Some(100));
    assert!(pool.alloc::<u8, _>(101, stream).is_err());
    pool.set_soft_limit(None);
    pool.access_of(&device).unwrap();
    device.graph_memory_usage().unwrap();
    device.reset_graph_memory_peaks().unwrap();
    device.trim_graph_memory().unwrap();
    drop(MemPool::raise_default_threshold(&device, 1 << 20).unwrap());
    drop(pool.make_current().unwrap());
    if let Ok(peer) = fixture.driver().device(1)
        && peer.can_access_peer(device).unwrap()
    {
        pool.grant(&peer, Access::ReadWrite).unwrap();
        pool.revoke(&peer).unwrap();
        pool.grant(&peer, Access::Read).unwrap();
    }
}

#[test]
fn g2_access_that_is_granted_and_taken_back_leaves_a_global_capture_whole() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let stream = fixture.stream();
    begin(&stream);
    thread::scope(|scope| drop(scope.spawn(|| everything_beside(&fixture))));
    end(&stream);
}

#[test]
fn g2_what_another_thread_does_with_pools_and_memory_leaves_a_global_capture_whole() {
    let fixture = Fixture::alone();
    let stream = fixture.stream();
    let _relaxed = RelaxedCaptureMode::new(fixture.driver());
    begin(&stream);
    thread::scope(|scope| drop(scope.spawn(|| everything_beside(&fixture))));
    end(&stream);
}

#[test]
fn g2_what_the_same_thread_does_on_another_stream_leaves_its_capture_whole() {
    let fixture = Fixture::alone();
    let stream = fixture.stream();
    let _relaxed = RelaxedCaptureMode::new(fixture.driver());
    begin(&stream);
    everything_beside(&fixture);
    end(&stream);
}

#[test]
fn g1_what_would_wait_for_a_captured_stream_is_refused_and_its_capture_stays_whole() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
    begin(&stream);
    let answers = [
        buffer.copy_from_host(&[1; 100]),
        buffer.copy_to_host(&mut [1; 100]),
        buffer.to_vec().map(drop),
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

#[test]
fn g1_where_captures_are_expected_what_leaves_a_mark_or_asks_for_one_is_refused_too() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
    let mut host = PinnedBuffer::<u8>::new(&context, 100).unwrap();
    let _expected = RelaxedCaptureMode::new(fixture.driver());
    begin(&stream);
    let answers = [
        buffer.copy_from_pinned(&host),
        buffer.copy_to_pinned(&mut host),
        stream.query().map(drop),
        stream.synchronize(),
    ];
    end(&stream);
    assert!(answers.iter().all(|answer| *answer == Err(Error::StreamCapturing)), "{answers:?}");
}

#[test]
fn g2_what_is_allocated_beside_a_global_capture_leaves_it_whole_if_that_is_asked_for() {
    let fixture = Fixture::alone();
    let (pool, stream, captured) = (fixture.pool(), fixture.stream(), fixture.stream());
    let elsewhere = |work: &(dyn Fn() + Sync)| {
        begin(&captured);
        thread::scope(|scope| drop(scope.spawn(work)));
    };
    // The negative control: the driver refuses, and ends the capture in an error; the allocation is made all the same.
    let allocated = || drop(pool.alloc::<u8, _>(100, &stream).unwrap());
    let expect_invalidated = || {
        let mut graph = core::ptr::null_mut();
        let end = fixture.driver().functions().cuStreamEndCapture.unwrap();
        // SAFETY: the stream is live and captures, and the call writes one handle.
        assert_eq!(unsafe { end(captured.as_raw(), &raw mut graph) }, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert!(graph.is_null());
    };
    elsewhere(&allocated);
    expect_invalidated();

    let relaxed = RelaxedCaptureMode::new(fixture.driver());
    let again = RelaxedCaptureMode::new(fixture.driver());
    drop(relaxed);
    elsewhere(&|| {
        let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
        buffer.fill(1).unwrap();
        stream.query().unwrap();
        stream.synchronize().unwrap();
        buffer.free().unwrap();
        drop(pool.alloc::<u8, _>(100, &stream).unwrap());
        drop(fixture.pool());
    });
    end(&captured);
    drop(again);
    // Freed in any case.
    let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    begin(&captured);
    thread::scope(|scope| drop(scope.spawn(|| buffer.free().unwrap())));
    expect_invalidated();
    // One of another driver is nothing to this one.
    let _other = RelaxedCaptureMode::new(Fixture::simulated().driver());
    elsewhere(&allocated);
    expect_invalidated();
}

/// The driver refuses to free such memory on a stream that captures.
/// A fence would become part of the graph, and order nothing else: memory would be freed while the captured stream still
/// uses it.
#[test]
fn where_captures_are_expected_no_fence_is_put_into_one() {
    let fixture = Fixture::alone();
    let (pool, captured, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let _expected = RelaxedCaptureMode::new(fixture.driver());
    let [mut there, mut here] = [&captured, &other].map(|home| pool.alloc_zeroed::<u8, _>(100, home).unwrap());
    for value in 0..20 {
        there.fill(value).unwrap();
    }
    begin(&captured);
    let answers = [
        here.copy_from(there.as_slice()),
        there.copy_from(here.as_slice()),
        here.on(&captured).map(drop),
        here.read_on(&captured).map(drop),
        there.read_on(&other).map(drop),
        other.wait_for(&captured),
        captured.wait_for(&other),
    ];
    let (refused, there) = there.move_to(&other).unwrap_err();
    let spread = other.is_capturing();
    end(&captured);
    assert!(answers.iter().all(|answer| *answer == Err(Error::StreamCapturing)), "{answers:?}");
    assert_eq!((refused, spread), (Error::StreamCapturing, Ok(false)));
    // All is as it was.
    let there = there.move_to(&other).unwrap();
    assert_eq!(there.to_vec().unwrap(), [19; 100]);
}

#[test]
fn what_is_lent_to_a_stream_that_is_captured_before_it_comes_back_is_given_up() {
    let fixture = Fixture::unchecked();
    let (pool, captured, home) = (fixture.pool(), fixture.stream(), fixture.stream());
    let _expected = RelaxedCaptureMode::new(fixture.driver());
    let [mut lent, read] = [(); 2].map(|()| pool.alloc_zeroed::<u8, _>(100, &home).unwrap());
    let (mut loan, reading) = (lent.on(&captured).unwrap(), read.read_on(&captured).unwrap());
    for value in 0..20 {
        loan.as_mut_slice().fill(value).unwrap();
    }
    begin(&captured);
    drop((loan, reading));
    assert_eq!((home.is_capturing(), lent.fill(1)), (Ok(false), Err(Error::LoanForgotten)));
    drop((lent, read));
    // The capture is whole.
    end(&captured);
    fixture.context().synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().used, 200);
    fixture.assert_no_findings();
}

#[test]
fn where_captures_are_expected_nothing_is_allocated_that_would_be_the_graphs() {
    let fixture = Fixture::alone();
    let (pool, captured) = (fixture.pool(), fixture.stream());
    let _expected = RelaxedCaptureMode::new(fixture.driver());
    begin(&captured);
    let answers = [
        pool.alloc::<u8, _>(100, &captured).map(drop),
        pool.alloc_zeroed::<u8, _>(100, &captured).map(drop),
        Buffer::<u8, _>::from_current_pool(100, &captured).map(drop),
    ];
    end(&captured);
    assert!(answers.iter().all(|answer| *answer == Err(Error::StreamCapturing)), "{answers:?}");
}

#[test]
fn g3_a_buffer_dropped_while_its_stream_captures_is_freed_after_the_capture() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let [one, other, kept] = [(); 3].map(|()| pool.alloc_zeroed::<u8, _>(100, &stream).unwrap());
    begin(&stream);
    drop(one);
    other.free().unwrap();
    assert_eq!(pool.usage().unwrap().used, 300, "the free became part of the graph");
    end(&stream);
    assert_eq!(pool.usage().unwrap().used, 300, "nobody has used the stream yet");
    assert_eq!(kept.to_vec().unwrap(), [0; 100]);
    assert_eq!(pool.usage().unwrap().used, 100);
    drop(kept);
    assert_eq!(pool.usage().unwrap().used, 0);
}

#[test]
fn g3_whatever_uses_the_stream_next_makes_up_for_the_frees() {
    type Next = fn(&MemPool, Stream);
    let fixture = Fixture::alone();
    let pool = fixture.pool();
    let next: [Next; 6] = [
        |_, stream| drop(stream),
        |_, stream| stream.synchronize().unwrap(),
        |pool, stream| drop(pool.alloc::<u8, _>(10, &stream).unwrap()),
        |_, stream| {
            let (raw, context) = stream.into_raw_parts();
            // SAFETY: what was just given up.
            drop(unsafe { Stream::from_raw_parts(raw, context) });
        },
        |_, stream| {
            begin(&stream);
            // The frees wait on, and the capture stays whole.
            let _relaxed = RelaxedCaptureMode::new(stream.driver());
            assert_eq!(stream.synchronize(), Err(Error::StreamCapturing));
            end(&stream);
        },
        |pool, stream| {
            for _ in 0..3 {
                let buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
                begin(&stream);
                drop(buffer);
                end(&stream);
            }
        },
    ];
    for (number, next) in next.into_iter().enumerate() {
        let stream = fixture.stream();
        let buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
        begin(&stream);
        drop(buffer);
        end(&stream);
        next(&pool, stream);
        assert_eq!(pool.usage().unwrap().used, 0, "{number}");
    }
}

#[test]
fn g3_a_failure_on_the_way_loses_the_memory_or_puts_it_off_and_never_frees_it_twice() {
    // The calls from the drop on: the free that is refused, the question why, the question whether that is over, the
    // free. What is lost of an allocation when the second or a later one fails, and what is put off.
    for (symbol, nth, code, lost) in [
        (Symbol::cuStreamIsCapturing, 0, 999, true),
        (Symbol::cuStreamIsCapturing, 1, 999, false),
        (Symbol::cuMemFreeAsync, 1, 700, true),
        (Symbol::cuMemFreeAsync, 1, 1, true),
        (Symbol::cuMemFreeAsync, 1, 900, false),
        (Symbol::cuMemFreeAsync, 1, 709, true),
    ] {
        let fixture = Fixture::unchecked();
        let (_context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
        let buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
        stream.synchronize().unwrap();
        begin(&stream);
        fixture.sim().fail(symbol, nth, CUresult(code));
        drop(buffer);
        end(&stream);
        for _ in 0..3 {
            stream.synchronize().unwrap();
        }
        fixture.sim().clear_faults();
        let left = if lost { 100 } else { 0 };
        assert_eq!(pool.usage().unwrap().used, left, "{symbol:?} {nth} {code}");
        drop(stream);
        assert_eq!(pool.usage().unwrap().used, left, "{symbol:?} {nth} {code}");
        assert_no_findings(fixture.sim());
    }
}

/// Only memory that nobody can free any more is lost, and that is counted.
#[test]
fn g3_a_stream_that_is_dropped_while_it_captures_loses_the_memory() {
    let fixture = Fixture::unchecked();
    let (_context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
    begin(&stream);
    drop(buffer);
    let failures = release_failures();
    drop(stream);
    assert!(release_failures() > failures);
    assert!(recent_release_failures().contains(&Error::StreamCapturing));
    assert_eq!(pool.usage().unwrap().used, 100);
    // Others are as they were.
    let stream = fixture.stream();
    drop(pool.alloc_zeroed::<u8, _>(100, &stream).unwrap());
    stream.synchronize().unwrap();
    assert_no_findings(fixture.sim());
}
