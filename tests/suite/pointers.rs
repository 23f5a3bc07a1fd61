//! What the driver says about addresses.

use core::ptr;

use cupool::{Device, Error, ManagedBuffer, MemoryKind, PinnedBuffer, PointerInfo, Registered, Result};
use cupool_sim::{CUresult, Symbol};

use crate::fixture::Fixture;

fn ask(device: Device, address: u64) -> Result<Option<PointerInfo>> {
    // SAFETY: the tests ask about memory that lives, and about what was never the driver's.
    unsafe { device.driver().pointer_info(address) }
}

#[test]
fn memory_of_a_pool_is_known_with_its_device_and_pool() {
    let fixture = Fixture::new();
    let (device, pool, stream) = (fixture.device(), fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u8, _>(10_000, &stream).unwrap();
    let info = buffer.slice(5000..).unwrap().pointer_info().unwrap().unwrap();
    assert_eq!(info, ask(device, buffer.as_raw() + 5000).unwrap().unwrap());
    assert_eq!((info.kind, info.device, info.start), (MemoryKind::Device, Some(device), buffer.as_raw()));
    assert!(info.byte_len >= 10_000, "{info:?}");
    assert_eq!(info.pool, Some(pool.as_raw()));
    assert!(!info.is_managed);
    assert_eq!(pool.alloc::<u8, _>(0, &stream).unwrap().as_slice().pointer_info(), Ok(None));
}

#[test]
fn two_allocations_have_two_numbers() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let [one, two] = [(), ()].map(|()| pool.alloc::<u8, _>(100, &stream).unwrap());
    let number = |of: &cupool::Buffer<u8, _>| of.as_slice().pointer_info().unwrap().unwrap().buffer_id;
    assert_eq!(number(&one), number(&one));
    assert_ne!(number(&one), number(&two));
}

#[test]
fn i8_memory_of_pools_and_managed_memory_are_not_for_legacy_ipc() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    assert!(!buffer.as_slice().pointer_info().unwrap().unwrap().is_legacy_ipc_capable);
    let managed = ManagedBuffer::<u8, _>::alloc(100, &stream).unwrap();
    let info = managed.as_slice().pointer_info().unwrap().unwrap();
    assert!(info.is_managed && !info.is_legacy_ipc_capable && info.pool.is_none(), "{info:?}");
}

#[test]
fn page_locked_memory_is_known_and_ordinary_memory_is_not() {
    let fixture = Fixture::new();
    let (context, device) = (fixture.context(), fixture.device());
    let pinned = PinnedBuffer::<u32>::new(&context, 100).unwrap();
    let info = ask(device, pinned.device_address().unwrap()).unwrap().unwrap();
    assert_eq!(info.kind, MemoryKind::Host);
    assert!(!info.is_managed && info.pool.is_none(), "{info:?}");
    let ordinary = vec![0_u8; 1 << 20];
    assert_eq!(ask(device, ordinary.as_ptr().addr() as u64).unwrap(), None);
    assert_eq!(ask(device, 0).unwrap(), None);
}

#[test]
fn the_device_has_an_address_for_page_locked_memory() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let pinned = PinnedBuffer::from_slice(&context, &[7_u32; 100]).unwrap();
    let registered = Registered::from_vec(&context, vec![8_u32; 100]).unwrap();
    let mut buffer = pool.alloc_zeroed::<u32, _>(200, &stream).unwrap();
    let (first, second) = (pinned.device_address().unwrap(), registered.device_address().unwrap());
    let copy = fixture.driver().functions().cuMemcpyDtoDAsync;
    // SAFETY: all of it lives until the wait below, and is of that size.
    unsafe {
        assert_eq!(copy(buffer.as_raw(), first, 400, stream.as_raw()), CUresult::CUDA_SUCCESS);
        assert_eq!(copy(buffer.as_raw() + 400, second, 400, stream.as_raw()), CUresult::CUDA_SUCCESS);
    }
    stream.synchronize().unwrap();
    assert_eq!(buffer.slice(99..101).unwrap().to_vec().unwrap(), [7, 8]);
    buffer.fill(0).unwrap();
    assert_eq!(PinnedBuffer::<u8>::new(&context, 0).unwrap().device_address(), Ok(0));
    assert_eq!(Registered::from_vec(&context, Vec::<u8>::new()).unwrap().device_address(), Ok(0));
    registered.into_vec().unwrap();
}

#[test]
fn addresses_are_asked_about_on_a_thread_without_a_context() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let info = buffer.as_slice().pointer_info().unwrap().unwrap();
            assert_eq!(info.start, buffer.as_raw());
        });
    });
}

#[test]
fn questions_that_the_driver_refuses_are_errors() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    fixture.sim().fail(Symbol::cuPointerGetAttributes, 0, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let error = buffer.as_slice().pointer_info().unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_CONTEXT));
    // Also on memory that is not there any more.
    let other = fixture.stream();
    drop(buffer.on(&other).unwrap());
    let mut functions = *fixture.driver().functions();
    functions.cuPointerGetAttributes = None;
    // SAFETY: the entries are the simulated driver's.
    let older = unsafe { cupool::Driver::from_functions(Box::leak(Box::new(functions))) };
    let unsupported = Err(Error::Unsupported(Symbol::cuPointerGetAttributes));
    assert_eq!(ask(older.device(0).unwrap(), ptr::without_provenance::<u8>(8).addr() as u64), unsupported);
}
