//! Data goes where it should, unchanged, by every kind of copy.

use bytemuck::{Pod, Zeroable};
use cupool::Error;
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{fixture::Fixture, gate::Gate, registered::RegisteredPart};

#[derive(Clone, Copy, Debug, PartialEq, Zeroable, Pod)]
#[repr(C)]
struct Sample {
    position: [f32; 3],
    label: u32,
    weight: f64,
}

fn samples(len: usize) -> Vec<Sample> {
    (0..len)
        .map(|at| Sample { position: [at as f32, -1.5, f32::MAX], label: at as u32 ^ 0xffff, weight: 1.0 / at as f64 })
        .collect()
}

#[test]
fn every_size_and_type_makes_the_round_trip() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for len in [1, 2, 3, 511, 512, 513, 4096, 65_537, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
        let mut back = vec![0; len];
        let mut buffer = pool.alloc(len, &stream).unwrap();
        buffer.copy_from_host(&bytes).unwrap();
        buffer.copy_to_host(&mut back).unwrap();
        assert!(back == bytes, "{len} bytes");
        assert!(buffer.to_vec().unwrap() == bytes, "{len} bytes");
    }
    for len in [1, 1000] {
        let samples = samples(len);
        assert_eq!(pool.alloc_from_host(&samples, &stream).unwrap().to_vec().unwrap(), samples);
    }
    let wide = [u128::MAX, 0, 1 << 100];
    assert_eq!(pool.alloc_from_host(&wide, &stream).unwrap().to_vec().unwrap(), wide);
}

#[test]
fn parts_at_odd_offsets_make_the_round_trip_and_touch_nothing_else() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for (start, len) in [(0, 1), (1, 1), (1, 7), (3, 5), (511, 2), (513, 1023), (4095, 1)] {
        let mut buffer = pool.alloc_from_host(&[0xaa_u8; 4096], &stream).unwrap();
        let part: Vec<u8> = (0..len).map(|at| at as u8).collect();
        buffer.slice_mut(start..start + len).unwrap().copy_from_host(&part).unwrap();
        assert_eq!(buffer.slice(start..start + len).unwrap().to_vec().unwrap(), part);
        let all = buffer.to_vec().unwrap();
        assert!(all[..start].iter().chain(&all[start + len..]).all(|byte| *byte == 0xaa), "{start} and {len}");
    }
}

#[test]
fn device_copies_move_parts_to_other_offsets() {
    let fixture = Fixture::new();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let numbers: Vec<u16> = (0..1000).collect();
    let source = pool.alloc_from_host(&numbers, &stream).unwrap();
    for home in [&stream, &other] {
        for (from, to, len) in [(0, 0, 1000), (1, 0, 999), (0, 1, 999), (501, 3, 7), (999, 0, 1)] {
            let mut target = pool.alloc_zeroed::<u16, _>(1000, home).unwrap();
            target.slice_mut(to..to + len).unwrap().copy_from(source.slice(from..from + len).unwrap()).unwrap();
            let mut expected = vec![0; 1000];
            expected[to..to + len].copy_from_slice(&numbers[from..from + len]);
            assert_eq!(target.to_vec().unwrap(), expected);
        }
    }
}

#[test]
fn halves_of_one_buffer_are_copied_to_each_other() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_from_host(&[1_u32, 2, 3, 4], &stream).unwrap();
    let (mut head, tail) = buffer.as_mut_slice().split_at(2).unwrap();
    head.copy_from(tail.as_slice()).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [3, 4, 3, 4]);
}

#[test]
fn e7_lengths_that_differ_are_refused_before_any_call() {
    let fixture = Fixture::simulated();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(10, &stream).unwrap();
    let elsewhere = pool.alloc::<u32, _>(11, &other).unwrap();
    fixture.expect_calls(&[], || {
        let mismatch = |destination, source_len| Err(Error::LengthMismatch { destination, source_len });
        assert_eq!(buffer.copy_from_host(&[0; 9]), mismatch(10, 9));
        assert_eq!(buffer.copy_from_host(&[]), mismatch(10, 0));
        assert_eq!(buffer.copy_to_host(&mut [0; 11]), mismatch(11, 10));
        assert_eq!(buffer.copy_from(elsewhere.as_slice()), mismatch(10, 11));
    });
}

#[test]
fn e1_a_host_source_may_change_as_soon_as_the_copy_returns() {
    // The simulated driver reads pageable memory as late as CUDA's documentation allows.
    for late in [true, false] {
        let fixture = Fixture::with(Simulator::builder().pageable_async(late));
        let (pool, stream) = (fixture.pool(), fixture.stream());
        let mut source = vec![1_u32; 1000];
        let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
        buffer.copy_from_host(&source).unwrap();
        source.fill(2);
        drop(source);
        assert_eq!(buffer.to_vec().unwrap(), [1; 1000]);
    }
}

#[test]
fn e1_a_registered_source_may_change_as_soon_as_the_copy_returns() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut source = vec![1_u8; 8 << 20];
    let _registered = RegisteredPart::of(&context, &mut source, 0, 8 << 20);
    let mut busy = pool.alloc::<u8, _>(8 << 20, &stream).unwrap();
    let mut buffer = pool.alloc::<u8, _>(8 << 20, &stream).unwrap();
    for _ in 0..50 {
        busy.fill(3).unwrap();
    }
    buffer.copy_from_host(&source).unwrap();
    source.fill(2);
    assert!(buffer.to_vec().unwrap().iter().all(|byte| *byte == 1));
    for _ in 0..50 {
        busy.fill(3).unwrap();
    }
    buffer.copy_to_host(&mut source).unwrap();
    assert!(source.iter().all(|byte| *byte == 1), "the copy had not arrived when the call returned");
}

#[test]
fn e4_a_host_target_is_filled_when_the_copy_returns() {
    for late in [true, false] {
        let fixture = Fixture::with(Simulator::builder().pageable_async(late));
        let (pool, stream) = (fixture.pool(), fixture.stream());
        let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
        buffer.fill(5).unwrap();
        let mut target = vec![0; 1000];
        buffer.copy_to_host(&mut target).unwrap();
        assert_eq!(target, [5; 1000]);
    }
}

#[test]
fn c6_a_copy_to_the_host_that_cannot_be_waited_for_leaves_the_target_alone() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
    buffer.fill(5).unwrap();
    let mut target = vec![0; 1000];
    let fail = |symbol| fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
    // The stream, and then the context, are waited for where the copy's own event fails.
    fail(Symbol::cuEventSynchronize);
    buffer.copy_to_host(&mut target).unwrap();
    assert_eq!(target, [5; 1000]);
    buffer.fill(6).unwrap();
    fail(Symbol::cuEventSynchronize);
    fail(Symbol::cuStreamSynchronize);
    buffer.copy_to_host(&mut target).unwrap();
    assert_eq!(target, [6; 1000]);
    buffer.fill(7).unwrap();
    fail(Symbol::cuEventSynchronize);
    fail(Symbol::cuStreamSynchronize);
    fail(Symbol::cuCtxSynchronize);
    assert!(buffer.copy_to_host(&mut target).is_err());
    assert_eq!(target, [6; 1000]);
    // The copy is still to run, into memory that nobody else gets.
    stream.synchronize().unwrap();
    assert_eq!(target, [6; 1000]);
    assert_eq!(buffer.to_vec().unwrap(), [7; 1000]);
    fixture.assert_no_findings();
}

#[test]
fn c6_a_copy_to_the_host_that_fails_is_waited_for_all_the_same() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    fixture.sim().fail(Symbol::cuMemcpyDtoHAsync, 0, CUresult::CUDA_ERROR_UNKNOWN);
    let waits = fixture.sim().count(Symbol::cuStreamSynchronize);
    let error = buffer.to_vec().unwrap_err();
    assert!(error.to_string().starts_with("cuMemcpyDtoHAsync"), "{error}");
    assert_eq!(fixture.sim().count(Symbol::cuStreamSynchronize), waits + 1);
    assert_eq!(buffer.to_vec().unwrap(), [0; 1000]);
}

#[test]
fn device_copies_do_not_wait_on_the_host() {
    let fixture = Fixture::alone();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut source = pool.alloc::<u32, _>(1000, &first).unwrap();
    let mut target = pool.alloc::<u32, _>(1000, &first).unwrap();
    let mut elsewhere = pool.alloc::<u32, _>(1000, &second).unwrap();
    let gate = Gate::on(&fixture, &first);
    source.fill(8).unwrap();
    target.copy_from(source.as_slice()).unwrap();
    elsewhere.copy_from(target.as_slice()).unwrap();
    drop((source, target));
    // All of this was enqueued while the first stream was held up, and the second waits for it.
    fixture.assert_pending(&first);
    fixture.assert_pending(&second);
    gate.open();
    assert_eq!(elsewhere.to_vec().unwrap(), [8; 1000]);
}

#[test]
fn g1_host_copies_are_refused_while_the_stream_is_captured_and_the_capture_survives() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(10, &stream).unwrap();
    let functions = fixture.driver().functions();
    let mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is live.
    let code = unsafe { functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    assert!(stream.is_capturing().unwrap());
    assert_eq!(buffer.copy_from_host(&[1; 10]), Err(Error::StreamCapturing));
    assert_eq!(buffer.copy_to_host(&mut [1; 10]), Err(Error::StreamCapturing));
    assert_eq!(buffer.to_vec(), Err(Error::StreamCapturing));
    buffer.fill(1).unwrap();
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live, and the call writes one handle.
    let code = unsafe { functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    // SAFETY: the graph was just made and is not used.
    assert_eq!(unsafe { functions.cuGraphDestroy.unwrap()(graph) }, CUresult::CUDA_SUCCESS);
    assert_eq!(buffer.to_vec().unwrap(), [0; 10], "a captured fill does not run");
}
