//! Large slices of ordinary memory are left to the driver and waited for; all others are staged, however large.

use cupool::{Error, cuda_sys::CUdevice_attribute};
use cupool_sim::{
    CUresult, Simulator,
    Symbol::{
        self, cuCtxPopCurrent, cuCtxPushCurrent, cuCtxSynchronize, cuDeviceGetAttribute, cuMemcpyDtoHAsync,
        cuMemcpyHtoDAsync, cuPointerGetAttributes, cuStreamSynchronize,
    },
};

use crate::{fixture::Fixture, registered::RegisteredPart};

/// Bytes of the smallest slice that is not staged.
const LARGE: usize = 4 << 20;

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// Whether a copy there and back went without a block of page-locked memory; the bytes must be right.
fn is_direct(fixture: &Fixture, bytes: usize) -> bool {
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let source = numbered(bytes);
    let blocks = fixture.sim().count(Symbol::cuMemHostAlloc);
    assert!(pool.alloc_from_host(&source, &stream).unwrap().to_vec().unwrap() == source);
    fixture.sim().count(Symbol::cuMemHostAlloc) == blocks
}

#[test]
fn large_slices_of_ordinary_memory_are_left_to_the_driver() {
    let fixture = Fixture::simulated();
    assert!(is_direct(&fixture, LARGE));
    assert!(is_direct(&fixture, LARGE + 1));
    assert!(!is_direct(&fixture, LARGE - 1));
}

#[test]
fn where_the_device_may_reach_the_slice_or_nobody_can_tell_it_is_staged() {
    let reaching = Simulator::builder().attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1);
    assert!(!is_direct(&Fixture::with(reaching), LARGE));
    for symbol in [cuDeviceGetAttribute, cuPointerGetAttributes] {
        let fixture = Fixture::simulated();
        let (pool, stream) = (fixture.pool(), fixture.stream());
        let mut buffer = pool.alloc::<u8, _>(LARGE, &stream).unwrap();
        fixture.sim().fail_every(symbol, CUresult::CUDA_ERROR_UNKNOWN);
        buffer.copy_from_host(&numbered(LARGE)).unwrap();
        assert!(buffer.to_vec().unwrap() == numbered(LARGE));
        assert!(fixture.sim().count(Symbol::cuMemHostAlloc) > 0, "{symbol:?}");
    }
}

#[test]
fn e1_a_large_source_may_change_as_soon_as_the_copy_returns_and_a_target_is_filled() {
    // The simulated driver reads and writes pageable memory later than drivers do.
    for late in [true, false] {
        let fixture = Fixture::with(Simulator::builder().pageable_async(late));
        let (pool, stream) = (fixture.pool(), fixture.stream());
        let mut buffer = pool.alloc::<u8, _>(LARGE, &stream).unwrap();
        let mut source = vec![1_u8; LARGE];
        buffer.copy_from_host(&source).unwrap();
        source.fill(2);
        buffer.copy_to_host(&mut source).unwrap();
        assert!(source.iter().all(|byte| *byte == 1));
    }
}

#[test]
fn large_slices_of_which_a_part_is_registered_are_copied_like_any_other() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let part = 1 << 20;
    for start in [0, LARGE / 2, LARGE - part] {
        let mut slice = numbered(LARGE);
        let _registered = RegisteredPart::of(&context, &mut slice, start, part);
        let mut buffer = pool.alloc::<u8, _>(LARGE, &stream).unwrap();
        buffer.copy_from_host(&slice).unwrap();
        slice.fill(9);
        assert!(buffer.to_vec().unwrap() == numbered(LARGE), "registered from {start}");
        buffer.copy_to_host(&mut slice).unwrap();
        assert!(slice == numbered(LARGE), "registered from {start}");
    }
}

#[test]
fn c6_a_large_copy_that_fails_is_waited_for_and_one_that_is_refused_is_staged() {
    for symbol in [cuMemcpyHtoDAsync, cuMemcpyDtoHAsync] {
        let fixture = Fixture::simulated();
        let (pool, stream) = (fixture.pool(), fixture.stream());
        let mut host = numbered(LARGE);
        let mut buffer = pool.alloc_from_host(&host, &stream).unwrap();
        let mut copy = |code| {
            fixture.sim().fail(symbol, 0, code);
            if symbol == cuMemcpyHtoDAsync { buffer.copy_from_host(&host) } else { buffer.copy_to_host(&mut host) }
        };
        let waits = fixture.sim().count(cuStreamSynchronize);
        let error = copy(CUresult::CUDA_ERROR_UNKNOWN).unwrap_err();
        assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_UNKNOWN));
        assert_eq!(fixture.sim().count(cuStreamSynchronize), waits + 1);
        copy(CUresult::CUDA_ERROR_INVALID_VALUE).unwrap();
        assert!(buffer.to_vec().unwrap() == numbered(LARGE));
    }
}

#[test]
fn c6_where_the_stream_cannot_be_waited_for_the_context_is() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(LARGE, &stream).unwrap();
    let fail = |symbol| fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
    fail(cuStreamSynchronize);
    let (copied, calls) = fixture.calls_of(|| buffer.copy_from_host(&numbered(LARGE)));
    copied.unwrap();
    assert!(calls.ends_with(&[cuStreamSynchronize, cuCtxPushCurrent, cuCtxSynchronize, cuCtxPopCurrent]), "{calls:?}");
    fail(cuStreamSynchronize);
    fail(cuCtxSynchronize);
    let error = buffer.copy_from_host(&numbered(LARGE)).unwrap_err();
    assert!(matches!(error, Error::Driver(_)), "{error}");
    assert!(buffer.to_vec().unwrap() == numbered(LARGE));
}
