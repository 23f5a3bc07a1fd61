//! Host copies pass through page-locked blocks: of which there are few, that are reused, and end with the context.

use std::thread;

use cupool::Error;
use cupool_sim::{CUresult, Symbol};

use crate::{fixture::Fixture, gate::Gate, registered::RegisteredPart};

#[test]
fn copies_larger_than_a_block_arrive_whole() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for len in [(64 << 10) - 1, 64 << 10, (64 << 10) + 1, 512 << 10, (512 << 10) + 1, (5 << 20) + 3, 20 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at: u32| (at ^ at >> 8 ^ at >> 16) as u8).collect();
        let buffer = pool.alloc_from_host(&bytes, &stream).unwrap();
        assert!(buffer.to_vec().unwrap() == bytes, "{len} bytes");
    }
}

#[test]
fn the_host_does_not_wait_for_the_stream_when_it_copies_to_the_device() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(1000, &stream).unwrap();
    // A block that is there already, since making one may wait on a real driver.
    buffer.copy_from_host(&[0; 1000]).unwrap();
    stream.synchronize().unwrap();
    let gate = Gate::on(&fixture, &stream);
    let mut source = [1; 1000];
    buffer.copy_from_host(&source).unwrap();
    source.fill(2);
    fixture.assert_pending(&stream);
    gate.open();
    assert_eq!(buffer.to_vec().unwrap(), [1; 1000]);
}

#[test]
fn blocks_are_reused_and_few() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffers: Vec<_> = (0..100).map(|_| pool.alloc::<u8, _>(1000, &stream).unwrap()).collect();
    for (at, buffer) in buffers.iter_mut().enumerate() {
        // None of these has run when the next is made: the simulated driver waits as long as it can.
        buffer.copy_from_host(&[at as u8; 1000]).unwrap();
    }
    assert!(fixture.sim().live().host_allocations <= 8, "{:?}", fixture.sim().live());
    for (at, buffer) in buffers.iter().enumerate() {
        assert_eq!(buffer.to_vec().unwrap(), [at as u8; 1000]);
    }
    assert!(fixture.sim().live().host_allocations <= 8);
}

#[test]
fn blocks_end_with_the_last_that_holds_the_context() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    let pool = fixture.pool();
    let streams = [cupool::Stream::new(&context).unwrap(), cupool::Stream::new(&context).unwrap()];
    for stream in &streams {
        drop(pool.alloc_from_host(&[1_u8; 100], stream).unwrap());
    }
    drop(context);
    let [first, second] = streams;
    drop(first);
    assert!(fixture.sim().live().host_allocations > 0);
    drop(second);
    assert_eq!(fixture.sim().live().host_allocations, 0);
}

#[test]
fn everything_may_end_while_a_copy_from_the_host_is_still_to_run() {
    let fixture = Fixture::new();
    let kept = fixture.context();
    {
        let (pool, stream) = (fixture.pool(), fixture.stream());
        let mut buffer = pool.alloc::<u8, _>(1 << 20, &stream).unwrap();
        buffer.fill(1).unwrap();
        buffer.copy_from_host(&vec![2; 1 << 20]).unwrap();
    }
    kept.synchronize().unwrap();
}

#[test]
#[ignore = "needs a GPU"]
fn the_driver_waits_for_the_device_before_it_frees_page_locked_memory() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let functions = fixture.driver().functions();
    let mut target = pool.alloc_zeroed::<u8, _>(1 << 20, &stream).unwrap();
    // Work that is made to last: the free must come after all of it.
    let mut block = core::ptr::null_mut();
    context
        .with_current(|| {
            // SAFETY: the call writes one address.
            let code = unsafe { functions.cuMemHostAlloc.unwrap()(&raw mut block, 1 << 20, 0) };
            assert_eq!(code, CUresult::CUDA_SUCCESS);
            Ok(())
        })
        .unwrap();
    // SAFETY: the block is as large, and nobody uses it yet.
    unsafe { block.cast::<u8>().write_bytes(7, 1 << 20) };
    let gate = Gate::on(&fixture, &stream);
    target.fill(1).unwrap();
    // SAFETY: both are as large, and live until the copy is done.
    let code = unsafe { (functions.cuMemcpyHtoDAsync)(target.as_raw(), block.cast_const(), 1 << 20, stream.as_raw()) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    let address = block.expose_provenance();
    let (freed, opened) = thread::scope(|scope| {
        let free = scope.spawn(|| {
            let free = || {
                let block = core::ptr::with_exposed_provenance_mut(address);
                // SAFETY: allocated above, and not used afterwards.
                let code = unsafe { functions.cuMemFreeHost.unwrap()(block) };
                assert_eq!(code, CUresult::CUDA_SUCCESS);
                Ok(())
            };
            context.with_current(free).unwrap();
            std::time::Instant::now()
        });
        thread::sleep(core::time::Duration::from_millis(200));
        let opened = std::time::Instant::now();
        gate.open();
        (free.join().unwrap(), opened)
    });
    assert!(freed >= opened, "the memory was freed while a copy from it was still to run");
    assert!(target.to_vec().unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn e10_no_page_locked_memory_is_an_error_of_its_own_and_does_not_last() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(1000, &stream).unwrap();
    fixture.sim().fail(Symbol::cuMemHostAlloc, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let error = buffer.copy_from_host(&[1; 1000]).unwrap_err();
    assert!(matches!(error, Error::HostMemory { bytes } if bytes >= 1000), "{error:?}");
    assert!(error.to_string().contains("page-locked"), "{error}");
    fixture.sim().fail(Symbol::cuMemHostAlloc, 0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert!(matches!(buffer.to_vec(), Err(Error::HostMemory { .. })));
    buffer.copy_from_host(&[1; 1000]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1; 1000]);
}

#[test]
fn a_slice_of_which_a_part_is_registered_is_copied_like_any_other() {
    let fixture = Fixture::new();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut source: Vec<u8> = (0..1 << 20).map(|at: u32| at as u8).collect();
    let _registered = RegisteredPart::of(&context, &mut source, 256 << 10, 256 << 10);
    let mut buffer = pool.alloc_from_host(&source, &stream).unwrap();
    assert!(buffer.to_vec().unwrap() == source);
    buffer.fill(9).unwrap();
    buffer.copy_to_host(&mut source).unwrap();
    assert!(source.iter().all(|byte| *byte == 9));
}

#[test]
fn threads_copy_through_the_blocks_of_one_context() {
    let fixture = Fixture::new();
    let (context, pool) = (fixture.context(), fixture.pool());
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (context, pool) = (&context, &pool);
            scope.spawn(move || {
                let stream = cupool::Stream::new(context).unwrap();
                for round in 0..20_usize {
                    let bytes = vec![thread * 20 + round as u8; 1 + round * 50_000];
                    assert!(pool.alloc_from_host(&bytes, &stream).unwrap().to_vec().unwrap() == bytes);
                }
            });
        }
    });
}
