//! Fences that fail: the work is not done, or the host waits in the fence's place, or the memory is given up.

use cupool::{Buffer, Error, Stream};
use cupool_sim::{CUresult, Symbol};

use crate::fixture::{Fixture, assert_no_findings};

const FAILURE: CUresult = CUresult::CUDA_ERROR_UNKNOWN;

/// Two buffers with homes of their own, whose fences exist.
fn pair<'a>(
    fixture: &Fixture,
    pool: &cupool::MemPool,
    first: &'a Stream,
    second: &'a Stream,
) -> (Buffer<u32, &'a Stream>, Buffer<u32, &'a Stream>) {
    let source = pool.alloc_zeroed::<u32, _>(100, first).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(100, second).unwrap();
    target.copy_from(source.as_slice()).unwrap();
    fixture.sim().reset_log();
    (source, target)
}

#[test]
fn a_copy_whose_first_fence_fails_is_not_made() {
    for symbol in [Symbol::cuEventRecord, Symbol::cuStreamWaitEvent] {
        let fixture = Fixture::simulated();
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let (source, mut target) = pair(&fixture, &pool, &first, &second);
        fixture.sim().fail(symbol, 0, FAILURE);
        assert_eq!(target.copy_from(source.as_slice()).unwrap_err().code(), Some(FAILURE));
        assert_eq!(fixture.sim().count(Symbol::cuMemcpyDtoDAsync), 0);
        target.copy_from(source.as_slice()).unwrap();
    }
}

#[test]
fn a_copy_is_not_made_if_the_second_fence_has_no_event() {
    let fixture = Fixture::simulated();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let source = pool.alloc_zeroed::<u32, _>(100, &first).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(100, &second).unwrap();
    fixture.sim().fail(Symbol::cuEventCreate, 1, FAILURE);
    assert_eq!(target.copy_from(source.as_slice()).unwrap_err().code(), Some(FAILURE));
    assert_eq!(fixture.sim().count(Symbol::cuMemcpyDtoDAsync), 0);
    target.copy_from(source.as_slice()).unwrap();
}

#[test]
fn a_second_fence_that_fails_is_waited_for_on_the_host() {
    for symbol in [Symbol::cuEventRecord, Symbol::cuStreamWaitEvent] {
        let fixture = Fixture::simulated();
        let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
        let (mut source, mut target) = pair(&fixture, &pool, &first, &second);
        source.fill(7).unwrap();
        fixture.sim().fail(symbol, 1, FAILURE);
        target.copy_from(source.as_slice()).unwrap();
        assert_eq!(fixture.sim().count(Symbol::cuStreamSynchronize), 1);
        source.fill(8).unwrap();
        drop(source);
        assert_eq!(target.to_vec().unwrap(), [7; 100]);
    }
}

#[test]
fn a_wait_on_the_host_that_fails_is_tried_on_the_whole_context() {
    let fixture = Fixture::simulated();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let (source, mut target) = pair(&fixture, &pool, &first, &second);
    fixture.sim().fail(Symbol::cuStreamWaitEvent, 1, FAILURE);
    fixture.sim().fail(Symbol::cuStreamSynchronize, 0, FAILURE);
    target.copy_from(source.as_slice()).unwrap();
    assert_eq!(fixture.sim().count(Symbol::cuCtxSynchronize), 1);
}

#[test]
fn a_copy_that_fails_is_fenced_all_the_same() {
    let fixture = Fixture::simulated();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let (source, mut target) = pair(&fixture, &pool, &first, &second);
    fixture.sim().fail(Symbol::cuMemcpyDtoDAsync, 0, FAILURE);
    let error = target.copy_from(source.as_slice()).unwrap_err();
    assert!(error.to_string().starts_with("cuMemcpyDtoDAsync"), "{error}");
    assert_eq!(
        fixture.sim().calls(),
        [
            Symbol::cuEventRecord,
            Symbol::cuStreamWaitEvent,
            Symbol::cuMemcpyDtoDAsync,
            Symbol::cuEventRecord,
            Symbol::cuStreamWaitEvent
        ]
    );
}

#[test]
fn memory_that_can_neither_be_ordered_nor_waited_for_is_leaked_rather_than_freed() {
    let fixture = Fixture::unchecked();
    let (pool, first, second) = (fixture.pool(), fixture.stream(), fixture.stream());
    let (mut source, mut target) = pair(&fixture, &pool, &first, &second);
    let other = pool.alloc_zeroed::<u32, _>(100, &first).unwrap();
    fixture.sim().fail(Symbol::cuStreamWaitEvent, 1, FAILURE);
    fixture.sim().fail(Symbol::cuStreamSynchronize, 0, FAILURE);
    fixture.sim().fail(Symbol::cuCtxSynchronize, 0, FAILURE);
    let error = target.copy_from(source.as_slice()).unwrap_err();
    assert!(error.to_string().starts_with("cuStreamWaitEvent"), "{error}");

    // Its home gives up: nothing there is used or freed from now on.
    fixture.expect_calls(&[], || {
        assert_eq!(source.fill(1), Err(Error::OrderLost));
        assert_eq!(source.fill_zero(), Err(Error::OrderLost));
        assert_eq!(source.copy_from_host(&[0; 100]), Err(Error::OrderLost));
        assert_eq!(source.to_vec(), Err(Error::OrderLost));
        assert_eq!(source.copy_from(other.as_slice()), Err(Error::OrderLost));
        assert_eq!(target.copy_from(source.as_slice()), Err(Error::OrderLost));
        assert_eq!(source.free(), Err(Error::OrderLost));
        drop(other);
    });
    // The other stream is as it was.
    target.fill(2).unwrap();
    assert_eq!(target.to_vec().unwrap(), [2; 100]);
    drop(target);
    assert_eq!(fixture.sim().live().allocations, 2);
    drop(pool.alloc::<u32, _>(1, &second).unwrap());
    drop((first, second, pool));
    assert_no_findings(fixture.sim());
}
