//! Ways in which the safe API was once broken, or might have been.

use core::mem;
use std::sync::atomic::{AtomicU32, Ordering};

use cupool::{
    ContextRef, Error, MemPool, Registered, Stream, StreamRef,
    cuda_sys::{CUresult, CUstreamCaptureMode, Symbol},
};
use cupool_sim::Simulator;

use crate::fixture::Fixture;

fn begin_capture(stream: &Stream) {
    let begin = stream.driver().functions().cuStreamBeginCapture.unwrap();
    // SAFETY: the stream is live.
    let code = unsafe { begin(stream.as_raw(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

fn end_capture(stream: &Stream) {
    let functions = stream.driver().functions();
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live and captures; the graph is ours.
    unsafe {
        assert_eq!(functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn a_host_function_cannot_become_part_of_a_graph_which_would_call_it_more_than_once() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = || {
        CALLS.fetch_add(1, Ordering::Relaxed);
    };
    let fixture = Fixture::alone();
    let stream = fixture.stream();
    begin_capture(&stream);
    let refused = stream.call_host(call);
    end_capture(&stream);
    assert_eq!(refused, Err(Error::StreamCapturing));
    stream.call_host(call).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

#[cfg(feature = "launch")]
#[test]
fn d11_a_kernel_is_not_given_what_a_forgotten_loan_may_still_be_reading() {
    use cupool::launch::{LaunchConfig, Module};

    let fixture = Fixture::unchecked();
    fixture.sim().register_kernel("kernel", &[8], |_| ());
    let context = fixture.context();
    let kernel = Module::from_ptx(&context, ".version 7.0").unwrap().function("kernel").unwrap();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(10, &home).unwrap();
    let config = LaunchConfig::for_elements(1, 1);
    // SAFETY: the kernel does nothing.
    assert_eq!(unsafe { kernel.launch(&home, config, &(&mut buffer,)) }, Ok(()));
    mem::forget(buffer.read_on(&other).unwrap());
    // SAFETY: as above.
    assert_eq!(unsafe { kernel.launch(&home, config, &(&buffer,)) }, Ok(()), "home may read on");
    // SAFETY: as above.
    assert_eq!(unsafe { kernel.launch(&home, config, &(&mut buffer,)) }, Err(Error::LoanForgotten));
    mem::forget(buffer.on(&other));
    // SAFETY: as above.
    assert_eq!(unsafe { kernel.launch(&home, config, &(&buffer,)) }, Err(Error::LoanForgotten));
}

#[test]
fn memory_that_is_still_registered_is_not_freed() {
    for symbol in [Symbol::cuCtxPushCurrent, Symbol::cuMemHostUnregister] {
        let fixture = Fixture::unchecked();
        let context = fixture.context();
        let registered = Registered::from_vec(&context, vec![1_u8; 1 << 16]).unwrap();
        let address = registered.as_ptr();
        fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
        drop(registered);
        assert_eq!(fixture.sim().live().registered_ranges, 1);
        // SAFETY: the memory was leaked, as the test states: a read that is not allowed shows under a checker.
        assert_eq!(unsafe { *address }, 1);
        let registered = Registered::from_vec(&context, vec![2_u8; 1 << 16]).unwrap();
        fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
        assert_eq!(registered.into_vec().unwrap_err().code(), Some(CUresult::CUDA_ERROR_UNKNOWN));
    }
}

#[test]
fn k4_a_stream_that_is_held_up_does_not_hold_up_the_copies_of_another() {
    let fixture = Fixture::simulated();
    let (pool, stuck, free) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut behind = pool.alloc_zeroed::<u8, _>(100, &stuck).unwrap();
    let mut ahead = pool.alloc_zeroed::<u8, _>(100, &free).unwrap();
    for _ in 0..20 {
        behind.copy_from_host(&[1; 100]).unwrap();
        if fixture.sim().live().host_allocations == 8 {
            break;
        }
    }
    let waits = fixture.sim().count(Symbol::cuEventSynchronize);
    let pending = fixture.sim().live().pending_operations;
    for _ in 0..20 {
        ahead.copy_from_host(&[2; 100]).unwrap();
        free.synchronize().unwrap();
    }
    assert_eq!(fixture.sim().count(Symbol::cuEventSynchronize), waits);
    assert!(fixture.sim().live().pending_operations >= pending.min(8), "the other stream was made to run");
    assert_eq!(behind.to_vec().unwrap(), [1; 100]);
}

#[test]
fn nothing_is_allocated_where_it_could_not_be_freed() {
    let fixture = Fixture::unchecked();
    let (pool, home, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let source = pool.alloc_zeroed::<u8, _>(100, &home).unwrap();
    let mut target = pool.alloc_zeroed::<u8, _>(100, &other).unwrap();
    other.wait_for(&home).unwrap();
    home.wait_for(&other).unwrap();
    fixture.sim().fail(Symbol::cuEventRecord, 1, CUresult::CUDA_ERROR_UNKNOWN);
    fixture.sim().fail_every(Symbol::cuStreamSynchronize, CUresult::CUDA_ERROR_UNKNOWN);
    fixture.sim().fail_every(Symbol::cuCtxSynchronize, CUresult::CUDA_ERROR_UNKNOWN);
    assert!(target.copy_from(source.as_slice()).is_err());
    fixture.sim().clear_faults();
    let before = fixture.sim().live().allocations;
    for _ in 0..10 {
        assert_eq!(pool.alloc::<u8, _>(100, &home).unwrap_err(), Error::OrderLost);
    }
    assert_eq!(fixture.sim().live().allocations, before);
}

#[test]
fn b5_a_context_that_was_reset_and_revived_can_copy_again() {
    let fixture = Fixture::unchecked();
    let context = fixture.context();
    let copy = |pool: &MemPool| {
        let stream = Stream::new(&context)?;
        let mut buffer = pool.alloc::<u8, _>(100, &stream)?;
        buffer.copy_from_host(&[7; 100])?;
        buffer.to_vec()
    };
    copy(&fixture.pool()).unwrap();
    fixture.sim().reset_device(0);
    let _revived = fixture.context();
    assert_eq!(copy(&fixture.pool()), Ok(vec![7; 100]));
}

#[test]
fn f8_an_allocation_that_does_not_fit_leaves_the_default_pool_to_its_other_users() {
    let fixture = Fixture::with(Simulator::builder().device_memory(256 << 20));
    let stream = fixture.stream();
    let pool = MemPool::default_of(&fixture.device()).unwrap();
    let Err(Error::OutOfMemory(details)) = pool.alloc::<u8, _>(1 << 30, &stream) else { panic!("it cannot fit") };
    assert_eq!(details.rescue, cupool::Rescue::Off);
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolTrimTo), 0);
}

#[test]
fn h1_elements_without_size_come_back_at_once_however_many() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<[u8; 0], _>(usize::MAX, &stream).unwrap();
    assert_eq!(buffer.to_vec().unwrap().len(), usize::MAX);
}

#[test]
fn a_borrowed_context_ends_before_what_it_borrows() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    // SAFETY: the context is live for as long as it is borrowed.
    let borrowed = unsafe { ContextRef::borrow_raw(context.device(), context.as_raw()) };
    let own = fixture.stream();
    {
        // SAFETY: the stream is of this context, and outlives the reference.
        let stream = unsafe { StreamRef::borrow_raw(&borrowed, own.as_raw()) };
        let mut buffer = fixture.pool().alloc::<u8, _>(10, &stream).unwrap();
        buffer.copy_from_host(&[1; 10]).unwrap();
    }
    assert_eq!(fixture.sim().live().host_allocations, 1);
    drop(borrowed);
    assert_eq!(fixture.sim().live().host_allocations, 0, "its blocks go with it, and the context stays");
    assert_eq!(fixture.sim().live().primary_retains, 2);
}
