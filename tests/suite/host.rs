//! Page-locked host memory: owned, for copies that go on after the call, and registered in place.

use bytemuck::{Pod, Zeroable};
use cupool::{Error, PinnedBuffer, Registered, RelaxedCaptureMode, cuda_sys::CUstreamCaptureMode};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{fixture::Fixture, gate::Gate};

#[test]
fn pinned_memory_begins_as_zero_and_makes_the_round_trip() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut host = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
    assert_eq!(host.as_slice().unwrap(), [0; 1000]);
    for round in 0..10 {
        host.as_mut_slice().unwrap().fill(round);
        let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
        buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
        host.as_mut_slice().unwrap().fill(u32::MAX);
        buffer.as_slice().copy_to_pinned(&mut host).unwrap();
        assert_eq!(host.as_slice().unwrap(), [round; 1000]);
    }
    let same = PinnedBuffer::from_slice(&context, &[1.5_f64, -2.0]).unwrap();
    assert_eq!((same.len(), same.is_empty(), same.as_slice().unwrap()), (2, false, &[1.5, -2.0][..]));
}

#[test]
fn e2_a_pinned_copy_returns_at_once_and_only_a_change_of_its_source_waits_for_it() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut host = PinnedBuffer::from_slice(&context, &[5_u32; 1000]).unwrap();
    let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
    // The device only reads it, and so may the host.
    assert_eq!(host.as_slice().unwrap(), [5; 1000]);
    fixture.assert_pending(&stream);
    gate.open();
    host.as_mut_slice().unwrap().fill(6);
    assert_eq!(buffer.to_vec().unwrap(), [5; 1000]);
}

#[test]
fn e2_pinned_memory_that_is_dropped_in_the_middle_of_a_copy_outlives_it() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(1 << 20, &stream).unwrap();
    let gate = Gate::on(&fixture, &stream);
    let host = PinnedBuffer::from_slice(&context, &vec![3_u8; 1 << 20]).unwrap();
    buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
    drop(host);
    fixture.assert_pending(&stream);
    gate.open();
    assert!(buffer.to_vec().unwrap().iter().all(|byte| *byte == 3));
}

#[test]
fn e2_a_dropped_target_is_written_by_nobody_who_gets_its_memory() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
        let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
        buffer.fill(9).unwrap();
        for _ in 0..5 {
            let mut host = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
            buffer.as_slice().copy_to_pinned(&mut host).unwrap();
            drop(host);
            let fresh = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(fresh.as_slice().unwrap(), [0; 1000]);
        }
    }
}

#[test]
fn dropping_pinned_memory_calls_nothing_and_the_next_buffer_gets_it_once_the_device_is_done() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(10, &stream).unwrap();
    for _ in 0..3 {
        buffer.fill(1).unwrap();
    }
    let host = PinnedBuffer::from_slice(&context, &[1_u32; 10]).unwrap();
    buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
    fixture.expect_calls(&[], || drop(host));
    let meanwhile = PinnedBuffer::<u32>::new(&context, 10).unwrap();
    assert_eq!(fixture.sim().live().host_allocations, 2, "the first is in use");
    stream.synchronize().unwrap();
    let next = PinnedBuffer::<u32>::new(&context, 9).unwrap();
    assert_eq!(fixture.sim().live().host_allocations, 2, "the first is used again");
    assert_eq!(next.as_slice().unwrap(), [0; 9]);
    let larger = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
    assert_eq!(fixture.sim().live().host_allocations, 3, "none fits");
    drop((meanwhile, next, larger));
    assert_eq!(context.trim_pinned(), Ok(40 + 40 + 4000));
    assert_eq!(fixture.sim().live().host_allocations, 0);
    assert_eq!(context.trim_pinned(), Ok(0));
}

#[test]
fn copies_of_one_pinned_buffer_on_several_streams_follow_each_other() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (context, pool) = (fixture.context(), fixture.pool());
        let (first, second) = (fixture.stream(), fixture.stream());
        let mut one = pool.alloc::<u32, _>(1000, &first).unwrap();
        let mut two = pool.alloc::<u32, _>(1000, &second).unwrap();
        let mut host = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
        one.fill(1).unwrap();
        two.fill(2).unwrap();
        one.as_slice().copy_to_pinned(&mut host).unwrap();
        two.as_mut_slice().copy_from_pinned(&host).unwrap();
        one.fill(3).unwrap();
        one.as_slice().copy_to_pinned(&mut host).unwrap();
        assert_eq!(host.as_slice().unwrap(), [3; 1000]);
        assert_eq!(two.to_vec().unwrap(), [1; 1000]);
        one.as_mut_slice().copy_from_pinned(&host).unwrap();
        two.as_mut_slice().copy_from_pinned(&host).unwrap();
        host.as_mut_slice().unwrap().fill(8);
        assert_eq!((one.to_vec().unwrap(), two.to_vec().unwrap()), (vec![3; 1000], vec![3; 1000]));
    }
}

#[test]
fn copies_of_one_pinned_buffer_on_one_stream_make_no_fence() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(1000, &stream).unwrap();
    let mut host = PinnedBuffer::from_slice(&context, &[4_u32; 1000]).unwrap();
    for _ in 0..3 {
        fixture.expect_calls(&[Symbol::cuMemcpyHtoDAsync, Symbol::cuEventRecord], || {
            buffer.copy_from_pinned(&host).unwrap();
        });
    }
    fixture.expect_calls(&[Symbol::cuMemcpyDtoHAsync, Symbol::cuEventRecord], || {
        buffer.copy_to_pinned(&mut host).unwrap();
    });
    assert_eq!(host.as_slice().unwrap(), [4; 1000]);
}

#[test]
fn copies_follow_each_other_though_the_second_ones_stream_has_the_handle_of_the_first_ones() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (context, pool) = (fixture.context(), fixture.pool());
        let mut host = PinnedBuffer::<u32>::new(&context, 1000).unwrap();
        let first = fixture.stream();
        let handle = first.as_raw();
        let mut buffer = pool.alloc::<u32, _>(1000, &first).unwrap();
        buffer.fill(1).unwrap();
        buffer.copy_to_pinned(&mut host).unwrap();
        drop(buffer);
        drop(first);
        let second = fixture.stream();
        assert_eq!(second.as_raw(), handle, "the simulated driver uses handles again");
        let mut buffer = pool.alloc::<u32, _>(1000, &second).unwrap();
        buffer.copy_from_pinned(&host).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1; 1000]);
    }
}

#[test]
fn a_pinned_copy_is_refused_before_anything_is_enqueued() {
    let (fixture, other) = (Fixture::simulated(), Fixture::simulated());
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(10, &stream).unwrap();
    let mut host = PinnedBuffer::<u8>::new(&context, 11).unwrap();
    let mut foreign = PinnedBuffer::<u8>::new(&other.context(), 10).unwrap();
    fixture.expect_calls(&[], || {
        let mismatch = |destination, source_len| Err(Error::LengthMismatch { destination, source_len });
        assert_eq!(buffer.as_mut_slice().copy_from_pinned(&host), mismatch(10, 11));
        assert_eq!(buffer.as_slice().copy_to_pinned(&mut host), mismatch(11, 10));
        assert_eq!(buffer.as_mut_slice().copy_from_pinned(&foreign), Err(Error::DriverMismatch));
        assert_eq!(buffer.as_slice().copy_to_pinned(&mut foreign), Err(Error::DriverMismatch));
    });
    let mut host = PinnedBuffer::<u8>::new(&context, 10).unwrap();
    let functions = fixture.driver().functions();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let _expected = RelaxedCaptureMode::new(fixture.driver());
    // SAFETY: the stream is live.
    assert_eq!(unsafe { functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode) }, CUresult::CUDA_SUCCESS);
    assert_eq!(buffer.as_mut_slice().copy_from_pinned(&host), Err(Error::StreamCapturing));
    assert_eq!(buffer.as_slice().copy_to_pinned(&mut host), Err(Error::StreamCapturing));
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live, and the call writes one handle; the graph is destroyed unused.
    let codes = unsafe {
        (
            functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph),
            functions.cuGraphDestroy.unwrap()(graph),
        )
    };
    assert_eq!(codes, (CUresult::CUDA_SUCCESS, CUresult::CUDA_SUCCESS));
}

#[test]
fn h1_no_pinned_elements_take_no_calls() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(0, &stream).unwrap();
    fixture.expect_calls(&[], || {
        let mut none = PinnedBuffer::<u32>::new(&context, 0).unwrap();
        assert!(none.is_empty() && none.as_slice().unwrap().is_empty() && none.as_mut_slice().unwrap().is_empty());
        buffer.as_mut_slice().copy_from_pinned(&none).unwrap();
        buffer.as_slice().copy_to_pinned(&mut none).unwrap();
        assert_eq!(PinnedBuffer::<[u8; 0]>::new(&context, 9).unwrap().as_slice().unwrap().len(), 9);
        assert!(Registered::from_vec(&context, Vec::<u8>::new()).unwrap().is_empty());
    });
}

#[test]
fn h2_too_many_pinned_elements_are_refused() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    fixture.expect_calls(&[], || {
        for len in [usize::MAX, usize::MAX / 4 + 1, isize::MAX as usize / 4 + 1] {
            assert_eq!(PinnedBuffer::<u32>::new(&context, len).unwrap_err(), Error::SizeOverflow { len, size: 4 });
        }
    });
    let error = PinnedBuffer::<u8>::new(&context, 1 << 44).unwrap_err();
    assert_eq!(error, Error::HostMemory { bytes: 1 << 44 });
    assert_eq!(PinnedBuffer::<u8>::new(&context, 10).unwrap().as_slice().unwrap(), [0; 10]);
}

#[test]
fn h6_pinned_elements_aligned_more_than_a_page_are_aligned_or_refused() {
    #[derive(Clone, Copy)]
    #[repr(C, align(65536))]
    struct Large([u8; 65536]);
    // SAFETY: plain bytes, for which zero is valid.
    unsafe impl Zeroable for Large {}
    // SAFETY: plain bytes without padding, any of which are valid.
    unsafe impl Pod for Large {}

    let fixture = Fixture::new();
    let context = fixture.context();
    let mut kept = Vec::new();
    for _ in 0..16 {
        kept.push(PinnedBuffer::<u8>::new(&context, 1).unwrap());
        match PinnedBuffer::<Large>::new(&context, 1) {
            Ok(large) => assert_eq!(large.as_raw().addr() % 65536, 0, "a misaligned slice in safe code"),
            Err(error) => assert!(matches!(error, Error::Misaligned { .. }), "{error}"),
        }
    }
}

#[test]
fn a_pinned_copy_whose_end_cannot_be_marked_is_waited_for_or_the_memory_is_given_up() {
    let fixture = Fixture::unchecked();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(10, &stream).unwrap();
    let fail = |symbol| fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
    let mut host = PinnedBuffer::from_slice(&context, &[1_u32; 10]).unwrap();
    fail(Symbol::cuEventRecord);
    buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
    fixture.expect_calls(&[], || host.as_mut_slice().unwrap().fill(2));
    assert_eq!(buffer.to_vec().unwrap(), [1; 10]);

    fail(Symbol::cuEventRecord);
    fail(Symbol::cuStreamSynchronize);
    fail(Symbol::cuCtxSynchronize);
    assert!(buffer.as_mut_slice().copy_from_pinned(&host).is_err());
    assert_eq!(buffer.as_mut_slice().copy_from_pinned(&host), Err(Error::OrderLost));
    let held = fixture.sim().live().host_allocations;
    fixture.expect_calls(&[], || drop(host));
    assert_eq!(fixture.sim().live().host_allocations, held);
    stream.synchronize().unwrap();
    fixture.assert_no_findings();
}

#[test]
fn registered_memory_is_a_slice_and_comes_back_as_the_vector_it_was() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut registered = Registered::from_vec(&context, (0..10_000).collect::<Vec<u32>>()).unwrap();
    let buffer = pool.alloc_from_host(&registered, &stream).unwrap();
    registered.fill(0);
    buffer.copy_to_host(&mut registered).unwrap();
    assert!(registered.iter().copied().eq(0..10_000));
    let vector = registered.into_vec().unwrap();
    assert_eq!((vector.len(), vector[9999]), (10_000, 9999));

    let mut slice = vec![1_u8; 10_000];
    // SAFETY: a borrowed slice, and the registration is dropped here.
    let registered = unsafe { Registered::new(&context, &mut slice[..]) }.unwrap();
    assert_eq!(registered.len(), 10_000);
    drop(registered);
    slice.fill(2);
}

#[test]
fn memory_that_cannot_be_registered_comes_back() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    fixture.sim().fail(Symbol::cuMemHostRegister, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let (error, vector) = Registered::from_vec(&context, vec![7_u8; 100]).unwrap_err();
    assert_eq!((error, vector), (Error::HostMemory { bytes: 100 }, vec![7; 100]));

    let mut memory = vec![1_u8; 10_000];
    let alias: &mut [u8] = &mut memory;
    // SAFETY: a borrowed slice, and the registration is dropped before it.
    let first = unsafe { Registered::new(&context, alias) }.unwrap();
    fixture.sim().fail(Symbol::cuMemHostRegister, 0, CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    let (error, _) = Registered::from_vec(&context, vec![7_u8; 100]).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
    let relaxed = Symbol::cuThreadExchangeStreamCaptureMode;
    let calls = [Symbol::cuCtxPushCurrent, relaxed, Symbol::cuMemHostUnregister, relaxed, Symbol::cuCtxPopCurrent];
    fixture.expect_calls(&calls, || drop(first));
    assert_eq!(fixture.sim().live().registered_ranges, 0);
}

#[test]
fn pinned_memory_may_be_used_and_dropped_on_other_threads() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let mut host = PinnedBuffer::from_slice(&context, &[4_u32; 100]).unwrap();
    let registered = Registered::from_vec(&context, vec![1_u8; 100]).unwrap();
    let mut buffer = pool.alloc::<u32, _>(100, std::sync::Arc::clone(&stream)).unwrap();
    std::thread::spawn(move || {
        buffer.as_mut_slice().copy_from_pinned(&host).unwrap();
        host.as_mut_slice().unwrap().fill(0);
        assert_eq!(buffer.to_vec().unwrap(), [4; 100]);
        drop((buffer, host, registered));
    })
    .join()
    .unwrap();
}
