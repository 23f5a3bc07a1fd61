//! Buffers lent to other streams, and moved to them for good.

use core::mem;
use std::sync::Arc;

use cupool::{Buffer, Error};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{fixture::Fixture, gate::Gate};

const FAILURE: CUresult = CUresult::CUDA_ERROR_UNKNOWN;
const FENCE: [Symbol; 2] = [Symbol::cuEventRecord, Symbol::cuStreamWaitEvent];
const MAKE_EVENT: [Symbol; 3] = [Symbol::cuCtxPushCurrent, Symbol::cuEventCreate, Symbol::cuCtxPopCurrent];

#[test]
fn a_loan_sees_what_was_before_it_and_home_sees_the_loan() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
        for round in 0..10 {
            buffer.fill(round).unwrap();
            let mut loan = buffer.on(&other).unwrap();
            assert_eq!((loan.len(), loan.is_empty()), (1000, false));
            assert_eq!(loan.as_slice().slice(..3).unwrap().to_vec().unwrap(), [round; 3]);
            loan.as_mut_slice().slice(500..).unwrap().fill(1000 + round).unwrap();
            drop(loan);
            let values = buffer.to_vec().unwrap();
            assert_eq!((values[499], values[500]), (round, 1000 + round));
        }
    }
}

#[test]
fn a_loan_is_one_fence_there_and_one_back() {
    let fixture = Fixture::simulated();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(10, &home).unwrap();
    let address = buffer.as_raw();
    home.wait_for(&other).unwrap();
    other.wait_for(&home).unwrap();
    let loan = fixture.expect_calls(&FENCE, || buffer.on(&other).unwrap());
    assert_eq!(loan.as_raw(), address);
    fixture.expect_calls(&FENCE, || drop(loan));
    assert_eq!((buffer.as_raw(), buffer.len()), (address, 10));
    let loan = fixture.expect_calls(&FENCE, || buffer.read_on(&other).unwrap());
    assert_eq!(loan.as_raw(), address);
    fixture.expect_calls(&FENCE, || drop(loan));
    let moved = fixture.expect_calls(&FENCE, || buffer.move_to(&other).unwrap());
    fixture.expect_calls(&[Symbol::cuMemFreeAsync], || drop(moved));
}

#[test]
fn a_loan_to_its_own_home_is_no_call() {
    let fixture = Fixture::simulated();
    let (pool, home) = (fixture.pool(), fixture.shared_stream());
    let mut buffer = pool.alloc::<u32, _>(10, Arc::clone(&home)).unwrap();
    let buffer = fixture.expect_calls(&[], || {
        drop(buffer.on(&home).unwrap());
        drop(buffer.read_on(&home).unwrap());
        buffer.move_to(Arc::clone(&home)).unwrap()
    });
    assert_eq!(buffer.len(), 10);
}

#[test]
fn several_streams_read_at_once_and_home_reads_too() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, home) = (fixture.pool(), fixture.stream());
        let readers = [fixture.stream(), fixture.stream(), fixture.stream()];
        let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
        buffer.fill(5).unwrap();
        let mut copies = readers.each_ref().map(|reader| pool.alloc::<u32, _>(1000, reader).unwrap());
        {
            let loans = readers.each_ref().map(|reader| buffer.read_on(reader).unwrap());
            for (copy, loan) in copies.iter_mut().zip(&loans) {
                copy.copy_from(loan.as_slice()).unwrap();
            }
            assert_eq!(buffer.to_vec().unwrap(), [5; 1000]);
        }
        buffer.fill(6).unwrap();
        drop(buffer);
        drop(pool.alloc_zeroed::<u32, _>(1000, &home).unwrap());
        for copy in &copies {
            assert_eq!(copy.to_vec().unwrap(), [5; 1000]);
        }
    }
}

#[test]
fn home_waits_for_a_loan_that_has_ended_and_the_host_does_not() {
    let fixture = Fixture::alone();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
    let gate = Gate::on(&fixture, &other);
    {
        let mut loan = buffer.on(&other).unwrap();
        loan.as_mut_slice().fill(1).unwrap();
    }
    buffer.slice_mut(..10).unwrap().fill(2).unwrap();
    fixture.assert_pending(&home);
    fixture.assert_pending(&other);
    gate.open();
    let values = buffer.to_vec().unwrap();
    assert_eq!((values[9], values[10]), (2, 1));
}

#[test]
fn a_buffer_moves_to_a_new_home_and_no_longer_needs_the_old_one() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (pool, other) = (fixture.pool(), fixture.stream());
        let moved = {
            let home = fixture.stream();
            let mut buffer = pool.alloc::<u32, _>(1000, &home).unwrap();
            buffer.fill(4).unwrap();
            buffer.move_to(&other).unwrap()
        };
        assert!(moved.home().is_same(&other));
        assert_eq!(moved.to_vec().unwrap(), [4; 1000]);
        let (first, second) = (fixture.shared_stream(), fixture.shared_stream());
        let buffer: Buffer<u8> = pool.alloc_zeroed(10, Arc::clone(&first)).unwrap();
        let buffer: Buffer<u8> = buffer.move_to(Arc::clone(&second)).unwrap();
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
        drop(buffer);
    }
}

#[test]
fn d11_a_forgotten_loan_leaks_and_never_frees_early() {
    let fixture = Fixture::unchecked();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(1000, &home).unwrap();
    let mut loan = buffer.on(&other).unwrap();
    loan.as_mut_slice().fill(1).unwrap();
    mem::forget(loan);
    fixture.expect_calls(&[], || {
        assert_eq!((buffer.len(), buffer.as_raw()), (1000, 0));
        assert_eq!(buffer.fill(2), Err(Error::LoanForgotten));
        assert_eq!(buffer.to_vec(), Err(Error::LoanForgotten));
        assert_eq!(buffer.on(&other).unwrap_err(), Error::LoanForgotten);
        assert_eq!(buffer.read_on(&other).unwrap_err(), Error::LoanForgotten);
        let (error, buffer) = buffer.move_to(&other).unwrap_err();
        assert_eq!((error, buffer.free()), (Error::LoanForgotten, Err(Error::LoanForgotten)));
    });
    assert_eq!(fixture.sim().live().allocations, 1);
    other.synchronize().unwrap();
    fixture.assert_no_findings();
}

#[test]
fn d11_a_forgotten_shared_loan_leaks_once_the_buffer_is_used_exclusively() {
    type Use = fn(Buffer<u32>);
    let uses: [Use; 6] = [
        drop,
        |mut buffer| assert_eq!(buffer.fill(1), Err(Error::LoanForgotten)),
        |mut buffer| assert_eq!(buffer.slice_mut(3..).unwrap().fill_zero(), Err(Error::LoanForgotten)),
        |buffer| assert_eq!(buffer.into_raw_parts().0, 0),
        |buffer| assert_eq!(buffer.cast::<u8>().unwrap_err().0, Error::LoanForgotten),
        |mut buffer| assert_eq!(buffer.copy_from_host(&[1; 1000]), Err(Error::LoanForgotten)),
    ];
    for exclusive in uses {
        let fixture = Fixture::unchecked();
        let (pool, home, other) = (fixture.pool(), fixture.shared_stream(), fixture.stream());
        let buffer = pool.alloc_zeroed::<u32, _>(1000, Arc::clone(&home)).unwrap();
        let mut copy = pool.alloc::<u32, _>(1000, &other).unwrap();
        let loan = buffer.read_on(&other).unwrap();
        copy.copy_from(loan.as_slice()).unwrap();
        mem::forget(loan);
        assert_eq!(buffer.to_vec().unwrap(), [0; 1000], "home may read on");
        fixture.expect_calls(&[], || exclusive(buffer));
        assert_eq!(fixture.sim().live().allocations, 2, "the copy, and what is leaked");
        assert_eq!(copy.to_vec().unwrap(), [0; 1000]);
        fixture.assert_no_findings();
    }
}

#[test]
fn d11_freeing_a_buffer_whose_loan_was_forgotten_says_so() {
    let fixture = Fixture::unchecked();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let buffer = pool.alloc_zeroed::<u32, _>(10, &home).unwrap();
    mem::forget(buffer.read_on(&other).unwrap());
    assert_eq!(buffer.free(), Err(Error::LoanForgotten));
    assert_eq!(fixture.sim().live().allocations, 1);
}

#[test]
fn a_loan_that_cannot_be_fenced_is_not_made_and_the_buffer_is_as_it_was() {
    for symbol in FENCE {
        let fixture = Fixture::simulated();
        let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut buffer = pool.alloc_zeroed::<u32, _>(10, &home).unwrap();
        other.wait_for(&home).unwrap();
        let fail = || fixture.sim().fail(symbol, 0, FAILURE);
        fail();
        assert_eq!(buffer.on(&other).unwrap_err().code(), Some(FAILURE));
        fail();
        assert_eq!(buffer.read_on(&other).unwrap_err().code(), Some(FAILURE));
        fail();
        let (error, mut buffer) = buffer.move_to(&other).unwrap_err();
        assert_eq!(error.code(), Some(FAILURE));
        assert!(buffer.home().is_same(&home));
        buffer.fill(1).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1; 10]);
    }
}

#[test]
fn the_end_of_a_loan_that_cannot_be_fenced_is_waited_for_on_the_host() {
    for symbol in FENCE {
        let fixture = Fixture::simulated();
        let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut buffer = pool.alloc::<u32, _>(10, &home).unwrap();
        let mut loan = buffer.on(&other).unwrap();
        loan.as_mut_slice().fill(3).unwrap();
        fixture.sim().fail(symbol, 0, FAILURE);
        let (_, calls) = fixture.calls_of(|| drop(loan));
        assert_eq!(calls.last(), Some(&Symbol::cuStreamSynchronize));
        assert_eq!(buffer.to_vec().unwrap(), [3; 10]);
    }
}

#[test]
fn a_loan_whose_end_can_neither_be_fenced_nor_waited_for_leaks() {
    for shared in [false, true] {
        let fixture = Fixture::unchecked();
        let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
        let mut buffer = pool.alloc_zeroed::<u32, _>(10, &home).unwrap();
        let fail = || {
            for symbol in [Symbol::cuEventRecord, Symbol::cuStreamSynchronize, Symbol::cuCtxSynchronize] {
                fixture.sim().fail(symbol, 0, FAILURE);
            }
        };
        if shared {
            let loan = buffer.read_on(&other).unwrap();
            fail();
            drop(loan);
        } else {
            let loan = buffer.on(&other).unwrap();
            fail();
            drop(loan);
            assert_eq!(buffer.fill(1), Err(Error::LoanForgotten));
        }
        fixture.expect_calls(&[], || drop(buffer));
        assert_eq!(fixture.sim().live().allocations, 1);
        // Other memory of either stream is as it was.
        drop(pool.alloc_zeroed::<u32, _>(10, &home).unwrap());
        drop(pool.alloc_zeroed::<u32, _>(10, &other).unwrap());
        assert_eq!(fixture.sim().live().allocations, 1);
        fixture.assert_no_findings();
    }
}

#[test]
fn a_first_loan_makes_the_event_of_each_stream() {
    let fixture = Fixture::simulated();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(10, &home).unwrap();
    let there = [&MAKE_EVENT[..], &FENCE].concat();
    let loan = fixture.expect_calls(&there, || buffer.on(&other).unwrap());
    let (_, calls) = fixture.calls_of(|| drop(loan));
    assert!(calls.ends_with(&FENCE), "{calls:?}");
}

#[test]
fn a_loan_to_another_drivers_stream_is_refused() {
    let (one, other) = (Fixture::simulated(), Fixture::simulated());
    let (pool, here, there) = (one.pool(), one.stream(), other.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(10, &here).unwrap();
    assert_eq!(buffer.on(&there).unwrap_err(), Error::DriverMismatch);
    assert_eq!(buffer.read_on(&there).unwrap_err(), Error::DriverMismatch);
    let (error, buffer) = buffer.move_to(&there).unwrap_err();
    assert_eq!((error, buffer.len()), (Error::DriverMismatch, 10));
}

#[test]
fn nothing_is_lent_without_a_call() {
    let fixture = Fixture::simulated();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut none = pool.alloc::<u32, _>(0, &home).unwrap();
    fixture.expect_calls(&[], || {
        assert!(none.on(&other).unwrap().is_empty());
        assert_eq!(none.read_on(&other).unwrap().as_slice().to_vec().unwrap(), []);
        assert!(none.move_to(&other).unwrap().is_empty());
    });
}
