//! To and from raw, for everything that has a handle: nothing is released on the way, and all of it afterwards.

use cupool::{
    Context, ContextRef, DeviceSlice, DeviceSliceMut, Error, Event, EventRef, MemPool, MemPoolRef, PinnedBuffer,
    Stream, StreamRef, TimedEvent,
};
use cupool_sim::{CUresult, Symbol};

use crate::fixture::Fixture;

#[test]
fn every_owner_of_a_handle_can_be_taken_apart_and_put_together_again() {
    let fixture = Fixture::new();
    let (device, stream) = (fixture.device(), fixture.stream());
    let raw = fixture.context().into_raw().unwrap();
    // SAFETY: the retain was just given up.
    let context = unsafe { Context::from_raw(device, raw) };
    assert_eq!(context.as_raw(), raw);

    let (raw, of) = stream.into_raw_parts();
    // SAFETY: the parts of the stream above.
    let stream = unsafe { Stream::from_raw_parts(raw, of) };
    assert_eq!(stream.as_raw(), raw);

    let (raw, of) = Event::new(&context).unwrap().into_raw_parts();
    // SAFETY: the parts of that event.
    let event = unsafe { Event::from_raw_parts(raw, of) };
    event.record(&stream).unwrap();
    assert_eq!(event.as_raw(), raw);

    let (raw, of) = TimedEvent::new(&context).unwrap().into_raw_parts();
    // SAFETY: the parts of that event.
    let timed = unsafe { TimedEvent::from_raw_parts(raw, of) };
    timed.record(&stream).unwrap();
    timed.synchronize().unwrap();
    assert_eq!(timed.elapsed_ms_since(&timed), Ok(0.0));
    assert_eq!(timed.as_raw(), raw);

    let raw = fixture.pool().into_raw();
    // SAFETY: the pool was just given up.
    let pool = unsafe { MemPool::from_raw(device, raw) };
    assert_eq!(pool.as_raw(), raw);
    assert_eq!(pool.alloc_zeroed::<u8, _>(10, &stream).unwrap().to_vec().unwrap(), [0; 10]);
}

#[test]
fn every_handle_can_be_borrowed_and_is_left_alone() {
    let fixture = Fixture::new();
    let (context, stream, pool) = (fixture.context(), fixture.stream(), fixture.pool());
    let event = Event::new(&context).unwrap();
    // SAFETY: each outlives what borrows it.
    let (of_context, of_stream, of_event, of_pool) = unsafe {
        (
            ContextRef::borrow_raw(fixture.device(), context.as_raw()),
            StreamRef::borrow_raw(&context, stream.as_raw()),
            EventRef::borrow_raw(&context, event.as_raw()),
            MemPoolRef::borrow_raw(fixture.device(), pool.as_raw()),
        )
    };
    assert!(of_context.memory_info().is_ok());
    let mut buffer = of_pool.alloc_zeroed::<u32, _>(10, &of_stream).unwrap();
    of_event.record(&of_stream).unwrap();
    let (address, len) = (buffer.as_raw(), buffer.len());
    // SAFETY: the buffer's own memory, in its order, and it is not used meanwhile.
    let mut view = unsafe { DeviceSliceMut::<u32>::from_raw_parts(address, len, buffer.home()) };
    view.fill(3).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { DeviceSlice::<u32>::from_raw_parts(address, len, &stream) }.to_vec().unwrap(), [3; 10]);
    buffer.fill_zero().unwrap();
    drop(buffer);
    drop((of_context, of_stream, of_event, of_pool));
    stream.wait(&event).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn page_locked_memory_is_given_up_after_its_copies_and_taken_over_again() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let buffer = pool.alloc_from_host(&[8_u32; 100], &stream).unwrap();
    let mut host = PinnedBuffer::<u32>::new(&context, 100).unwrap();
    buffer.copy_to_pinned(&mut host).unwrap();
    let (address, len, of) = host.into_raw_parts().map_err(|(error, _)| error).unwrap();
    // SAFETY: so many elements, given up by the buffer; the copy is done.
    assert_eq!(unsafe { core::slice::from_raw_parts(address, len) }, [8; 100]);
    // SAFETY: the parts of the buffer above.
    let mut host = unsafe { PinnedBuffer::from_raw_parts(of.as_ref().unwrap(), address, len) }.unwrap();
    drop(of);
    assert_eq!((host.as_raw(), host.len()), (address, 100));
    host.as_mut_slice().unwrap().fill(9);
    let mut copy = pool.alloc::<u32, _>(100, &stream).unwrap();
    copy.copy_from_pinned(&host).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [9; 100]);
    drop(host);
    assert_eq!(context.trim_pinned(), Ok(400));

    // What was allocated elsewhere.
    let functions = fixture.driver().functions();
    let mut address = core::ptr::null_mut();
    let allocate = || {
        // SAFETY: the call writes one address.
        let code = unsafe { functions.cuMemHostAlloc.unwrap()(&raw mut address, 8, 0) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        Ok(())
    };
    context.with_current(allocate).unwrap();
    // SAFETY: memory of two elements that nobody else has; zero is a valid element.
    let theirs = unsafe {
        address.cast::<u32>().write_bytes(0, 2);
        PinnedBuffer::from_raw_parts(&context, address.cast::<u32>(), 2)
    };
    assert_eq!(theirs.unwrap().as_slice().unwrap(), [0, 0]);
    context.trim_pinned().unwrap();
}

#[test]
fn no_page_locked_elements_have_no_parts() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let (_, len, of) =
        PinnedBuffer::<u32>::new(&context, 0).unwrap().into_raw_parts().map_err(|(error, _)| error).unwrap();
    assert!(of.is_none() && len == 0);
    let from = |address: usize, len| {
        // SAFETY: nothing is there, and nothing is taken.
        unsafe { PinnedBuffer::<u32>::from_raw_parts(&context, core::ptr::without_provenance_mut(address), len) }
    };
    assert!(from(0, 0).unwrap().is_empty());
    assert_eq!(from(0, 1).unwrap_err(), Error::NullAddress);
    assert_eq!(from(2, 1).unwrap_err(), Error::Misaligned { address: 2, align: 4 });
    assert_eq!(from(4, usize::MAX).unwrap_err(), Error::SizeOverflow { len: usize::MAX, size: 4 });
    assert_eq!(from(4, usize::MAX / 4).unwrap_err(), Error::SizeOverflow { len: usize::MAX / 4, size: 4 });
}

#[test]
fn page_locked_memory_whose_copies_cannot_be_waited_for_is_not_given_up() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let buffer = pool.alloc_from_host(&[8_u32; 100], &stream).unwrap();
    let mut host = PinnedBuffer::<u32>::new(&context, 100).unwrap();
    buffer.copy_to_pinned(&mut host).unwrap();
    fixture.sim().fail(Symbol::cuEventSynchronize, 0, CUresult::CUDA_ERROR_UNKNOWN);
    let (error, host) = host.into_raw_parts().map(drop).unwrap_err();
    assert!(matches!(error, Error::Driver(_)));
    assert_eq!(host.as_slice().unwrap(), [8; 100]);
}

#[cfg(feature = "launch")]
#[test]
fn a_module_is_given_up_by_its_last_owner_and_taken_over_again() {
    use cupool::launch::{Function, Module};

    const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
                       .visible .entry nothing(.param .u64 p0)\n{\n    ret;\n}\n";

    let fixture = Fixture::new();
    if let Some(simulator) = fixture.simulator() {
        simulator.register_kernel("nothing", &[8], |_| {});
    }
    let module = Module::from_ptx(&fixture.context(), PTX).unwrap();
    let raw = module.as_raw();
    let (function, of) = module.function("nothing").unwrap().into_raw_parts();
    let module = module.into_raw_parts().map(drop).unwrap_err();
    drop(of);
    let (given_up, context) = module.into_raw_parts().unwrap();
    assert_eq!(given_up, raw);
    // SAFETY: the parts of the module above.
    let module = unsafe { Module::from_raw_parts(given_up, context) };
    // SAFETY: the function is of that module.
    let function = unsafe { Function::from_raw_parts(function, module) };
    assert_eq!(function.as_raw(), function.clone().into_raw_parts().0);
    let registers = cupool::cuda_sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
    assert!(function.attribute(registers).is_ok());
}
