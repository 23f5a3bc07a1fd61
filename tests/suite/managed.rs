//! Managed memory: what the host sees of it, and when it goes.

use core::mem;
use std::{sync::Arc, thread};

use cupool::{
    Buffer, Device, Driver, Error, LegacyStream, ManagedBuffer, MemKind, MemPool, MemPoolProperties, PinnedBuffer,
    Stream,
    cuda_sys::{CUdevice_attribute, CUstreamCaptureMode},
    recent_release_failures,
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    gate::Gate,
};

/// A pool of managed memory at home on `device`.
pub(crate) fn managed_pool(device: Device) -> MemPool {
    MemPool::with_properties(&device, &MemPoolProperties::new().kind(MemKind::Managed)).unwrap()
}

/// The two kinds: of a pool, and of none.
fn both<'a>(pool: &MemPool, len: usize, stream: &'a Stream) -> [ManagedBuffer<u32, &'a Stream>; 2] {
    let pooled = pool.alloc::<u32, _>(len, stream).unwrap().into_managed().map_err(|(error, _)| error);
    [pooled.unwrap(), ManagedBuffer::alloc(len, stream).unwrap()]
}

#[test]
fn the_host_sees_what_the_device_did_and_the_device_what_the_host_did() {
    let fixture = Fixture::alone();
    let (pool, stream) = (managed_pool(fixture.device()), fixture.stream());
    for mut buffer in both(&pool, 1000, &stream) {
        buffer.as_mut_slice().fill(7).unwrap();
        assert_eq!(buffer.as_host_slice().unwrap(), [7; 1000]);
        buffer.as_host_mut_slice().unwrap()[..500].fill(8);
        assert_eq!(buffer.slice(499..501).unwrap().to_vec().unwrap(), [8, 7]);
        buffer.slice_mut(..250).unwrap().fill(9).unwrap();
        let seen = buffer.as_host_slice().unwrap();
        // The device may read meanwhile.
        assert_eq!(buffer.slice(249..251).unwrap().to_vec().unwrap(), [9, 8]);
        assert_eq!((seen[249], seen[250], seen[499], seen[500]), (9, 8, 8, 7));
        let address = buffer.as_raw();
        assert_eq!(seen.as_ptr().addr() as u64, address);
        buffer.free().unwrap();
    }
}

#[test]
fn the_host_waits_for_work_of_every_kind_before_it_looks() {
    for seed in 0..20 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let context = fixture.context();
        let (pool, home, other) = (managed_pool(fixture.device()), fixture.stream(), fixture.stream());
        let legacy = LegacyStream::new(&context).unwrap();
        let pinned = PinnedBuffer::from_slice(&context, &[4_u32; 100]).unwrap();
        for mut buffer in both(&pool, 100, &home) {
            let mut source = pool.alloc::<u32, _>(100, &other).unwrap();
            source.fill(2).unwrap();
            buffer.as_mut_slice().copy_from(source.as_slice()).unwrap();
            assert_eq!(buffer.as_host_slice().unwrap(), [2; 100]);
            buffer.on(&other).unwrap().as_mut_slice().fill(3).unwrap();
            assert_eq!(buffer.as_host_slice().unwrap(), [3; 100]);
            buffer.as_mut_slice().copy_from_pinned(&pinned).unwrap();
            assert_eq!(buffer.as_host_slice().unwrap(), [4; 100]);
            buffer.as_mut_slice().fill(5).unwrap();
            // Readers elsewhere must be done before the host writes.
            source.copy_from(buffer.as_slice()).unwrap();
            let mut third = pool.alloc::<u32, _>(100, &other).unwrap();
            {
                let loan = buffer.read_on(&other).unwrap();
                third.copy_from(loan.as_slice()).unwrap();
                drop(buffer.read_on_default(&legacy).unwrap());
                drop(loan);
            }
            buffer.as_host_mut_slice().unwrap().fill(6);
            drop(buffer.on_default(&legacy).unwrap());
            assert_eq!(source.to_vec().unwrap(), [5; 100]);
            assert_eq!(third.to_vec().unwrap(), [5; 100]);
            assert_eq!(buffer.to_vec().unwrap(), [6; 100]);
        }
    }
}

#[test]
fn a_look_waits_for_the_home_stream_and_a_view_does_not() {
    let fixture = Fixture::alone();
    let (pool, home) = (managed_pool(fixture.device()), fixture.stream());
    for mut buffer in both(&pool, 1000, &home) {
        let gate = Gate::on(&fixture, &home);
        buffer.as_mut_slice().fill(1).unwrap();
        fixture.assert_pending(&home);
        let opener = thread::spawn(move || {
            thread::sleep(core::time::Duration::from_millis(20));
            gate.open();
        });
        assert_eq!(buffer.as_host_slice().unwrap(), [1; 1000]);
        opener.join().unwrap();
    }
}

#[test]
fn memory_of_a_pool_costs_no_more_than_a_buffer() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (managed_pool(fixture.device()), fixture.stream());
    let buffer = fixture.expect_calls(&[Symbol::cuMemAllocFromPoolAsync], || pool.alloc::<u8, _>(9, &stream).unwrap());
    let managed = buffer.into_managed().unwrap();
    fixture.expect_calls(&[Symbol::cuMemFreeAsync], || drop(managed));
}

#[test]
fn a_buffer_that_is_not_managed_comes_back() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(10, &stream).unwrap();
    buffer.fill(3).unwrap();
    let (error, buffer) = buffer.into_managed().unwrap_err();
    assert_eq!(error, Error::NotManaged);
    assert!(error.to_string().contains("managed"));
    assert_eq!(buffer.to_vec().unwrap(), [3; 10]);
}

#[test]
fn h1_no_elements_need_no_memory() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.expect_calls(&[], || {
        let mut none = ManagedBuffer::<u32, _>::alloc(0, &stream).unwrap();
        assert_eq!((none.len(), none.as_raw()), (0, 0));
        assert!(none.as_host_slice().unwrap().is_empty());
        assert!(none.as_host_mut_slice().unwrap().is_empty());
        none.free().unwrap();
        let mut units = ManagedBuffer::<(), _>::alloc(9, &stream).unwrap();
        assert_eq!(units.as_host_slice().unwrap().len(), 9);
        assert_eq!(units.as_host_mut_slice().unwrap().len(), 9);
        let none = pool.alloc::<u32, _>(0, &stream).unwrap().into_managed().unwrap();
        assert!(none.as_host_slice().unwrap().is_empty());
    });
    let overflow = Error::SizeOverflow { len: usize::MAX, size: 4 };
    fixture.expect_calls(&[], || {
        assert_eq!(ManagedBuffer::<u32, _>::alloc(usize::MAX, &stream).map(drop), Err(overflow));
    });
}

#[test]
fn d8_a_drop_waits_for_nothing_and_memory_is_used_again_once_the_device_is_done() {
    let fixture = Fixture::alone();
    let context = fixture.context();
    let [home, other] = [(), ()].map(|()| Stream::new(&context).unwrap());
    let mut buffer = ManagedBuffer::<u32, _>::alloc(1000, &home).unwrap();
    let first = buffer.as_raw();
    let gate = Gate::on(&fixture, &home);
    buffer.as_mut_slice().fill(1).unwrap();
    drop(buffer);
    fixture.assert_pending(&home);
    // Not yet.
    let mut second = ManagedBuffer::<u32, _>::alloc(1000, &other).unwrap();
    assert_ne!(second.as_raw(), first);
    gate.open();
    home.synchronize().unwrap();
    second.as_mut_slice().fill(2).unwrap();
    // Now, on any stream of the context, for about the same length.
    let third = ManagedBuffer::<u16, _>::alloc(1500, &other).unwrap();
    assert_eq!(third.as_raw(), first);
}

#[test]
fn memory_goes_when_its_context_is_told_or_goes() {
    let fixture = Fixture::simulated();
    let context = fixture.context();
    let stream = Stream::new(&context).unwrap();
    let mut buffer = ManagedBuffer::<u32, _>::alloc(1000, &stream).unwrap();
    buffer.as_mut_slice().fill(1).unwrap();
    buffer.free().unwrap();
    assert_eq!(fixture.sim().live().allocations, 1);
    assert_eq!(context.trim_managed(), Ok(4000));
    assert_eq!(fixture.sim().live().allocations, 0);
    assert_eq!(context.trim_managed(), Ok(0));
    drop(ManagedBuffer::<u32, _>::alloc(1000, &stream).unwrap());
    // The rest the fixture looks for, after the context's last owner.
}

#[test]
fn much_that_is_kept_is_freed_before_more_is_made() {
    let fixture = Fixture::with(Simulator::builder().device_memory(1 << 30));
    let context = fixture.context();
    let stream = Stream::new(&context).unwrap();
    for small in [1000, 5000] {
        let [one, two] = [150 << 20, 150 << 20].map(|len| ManagedBuffer::<u8, _>::alloc(len, &stream).unwrap());
        drop((one, two));
        drop(ManagedBuffer::<u8, _>::alloc(small, &stream).unwrap());
        assert!(fixture.sim().live().allocated_bytes < 1 << 20);
    }
}

#[test]
fn i7_a_managed_buffer_may_outlive_everything_that_it_was_made_with() {
    let fixture = Fixture::new();
    let pool = managed_pool(fixture.device());
    let stream = fixture.shared_stream();
    let pooled: ManagedBuffer<u32> = pool.alloc(100, Arc::clone(&stream)).unwrap().into_managed().unwrap();
    let mut other: ManagedBuffer<u32> = ManagedBuffer::alloc(100, stream).unwrap();
    drop(pool);
    other.as_mut_slice().copy_from(pooled.as_slice()).unwrap();
    other.as_host_mut_slice().unwrap().fill(1);
    thread::spawn(move || drop((pooled, other))).join().unwrap();
}

#[test]
fn a_managed_buffer_moves_to_another_stream_of_its_context() {
    for seed in 0..10 {
        let fixture = Fixture::with(Simulator::builder().seed(seed).devices(2));
        let (pool, home, other) = (managed_pool(fixture.device()), fixture.stream(), fixture.stream());
        let far = Stream::new(&fixture.driver().device(1).unwrap().primary_context().unwrap()).unwrap();
        for (mut buffer, goes_far) in both(&pool, 100, &home).into_iter().zip([true, false]) {
            buffer.as_mut_slice().fill(1).unwrap();
            let mut buffer = buffer.move_to(&other).unwrap();
            buffer.slice_mut(..50).unwrap().fill(2).unwrap();
            assert_eq!(buffer.as_host_slice().unwrap()[49..51], [2, 1]);
            // Memory of no pool belongs to its context.
            match buffer.move_to(&far) {
                Ok(mut buffer) => {
                    assert!(goes_far);
                    buffer.as_mut_slice().fill(3).unwrap();
                    assert_eq!(buffer.as_host_slice().unwrap(), [3; 100]);
                }
                Err((error, buffer)) => {
                    assert_eq!((error, goes_far), (Error::ContextMismatch, false));
                    assert_eq!(buffer.as_host_slice().unwrap()[49..51], [2, 1]);
                }
            }
        }
    }
}

#[test]
fn a_managed_buffer_is_lent_across_devices() {
    for seed in 0..10 {
        let fixture = Fixture::with(Simulator::builder().seed(seed).devices(2));
        let (pool, home) = (managed_pool(fixture.device()), fixture.stream());
        let far = Stream::new(&fixture.driver().device(1).unwrap().primary_context().unwrap()).unwrap();
        for mut buffer in both(&pool, 100, &home) {
            buffer.as_mut_slice().fill(1).unwrap();
            buffer.on(&far).unwrap().as_mut_slice().slice(..50).unwrap().fill(2).unwrap();
            assert_eq!(buffer.as_host_slice().unwrap()[49..51], [2, 1]);
        }
    }
}

#[test]
fn d11_after_a_forgotten_loan_the_host_is_not_let_to_write_and_the_memory_is_leaked() {
    let fixture = Fixture::unchecked();
    let (pool, home, other) = (managed_pool(fixture.device()), fixture.stream(), fixture.stream());
    for (which, mut buffer) in both(&pool, 10, &home).into_iter().enumerate() {
        let before = fixture.sim().live().allocations;
        mem::forget(buffer.read_on(&other).unwrap());
        // The other stream can only read.
        buffer.as_host_slice().unwrap();
        assert_eq!(buffer.as_host_mut_slice().map(drop), Err(Error::LoanForgotten), "{which}");
        assert_eq!(buffer.as_host_slice().map(drop), Err(Error::LoanForgotten), "{which}");
        assert_eq!(buffer.as_mut_slice().fill(1), Err(Error::LoanForgotten));
        assert_eq!(buffer.free(), Err(Error::LoanForgotten));
        assert_eq!(fixture.sim().live().allocations, before, "{which}");
    }
    for mut buffer in both(&pool, 10, &home) {
        mem::forget(buffer.on(&other).unwrap());
        assert_eq!(buffer.as_host_slice().map(drop), Err(Error::LoanForgotten));
        assert_eq!(buffer.move_to(&other).map(drop).unwrap_err().0, Error::LoanForgotten);
    }
    fixture.context().trim_managed().unwrap();
    assert_eq!(fixture.sim().live().allocations, 4);
    assert!(recent_release_failures().contains(&Error::LoanForgotten));
    fixture.assert_no_findings();
}

#[test]
fn a_loan_that_was_given_up_with_a_report_is_not_reported_again() {
    let fixture = Fixture::unchecked();
    let (home, other) = (fixture.stream(), fixture.stream());
    let mut buffer = ManagedBuffer::<u32, _>::alloc(10, &home).unwrap();
    let loan = buffer.on(&other).unwrap();
    for symbol in [Symbol::cuEventRecord, Symbol::cuStreamSynchronize, Symbol::cuCtxSynchronize] {
        fixture.sim().fail(symbol, 0, CUresult::CUDA_ERROR_UNKNOWN);
    }
    if other.wait_for(&home).is_err() {
        fixture.sim().fail(Symbol::cuEventRecord, 0, CUresult::CUDA_ERROR_UNKNOWN);
    }
    drop(loan);
    assert_eq!(buffer.as_host_slice().map(drop), Err(Error::LoanForgotten));
    assert_eq!(buffer.free(), Err(Error::LoanForgotten));
}

#[test]
fn g1_a_stream_that_is_captured_is_not_waited_for_and_its_capture_survives() {
    let fixture = Fixture::alone();
    let (pool, stream) = (managed_pool(fixture.device()), fixture.stream());
    for mut buffer in both(&pool, 10, &stream) {
        buffer.as_host_mut_slice().unwrap().fill(1);
        let functions = fixture.driver().functions();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the stream is live.
        assert_eq!(unsafe { functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode) }, CUresult::CUDA_SUCCESS);
        assert_eq!(buffer.as_host_slice().map(drop), Err(Error::StreamCapturing));
        assert_eq!(buffer.as_host_mut_slice().map(drop), Err(Error::StreamCapturing));
        assert_eq!(buffer.prefetch(.., cupool::MemLocation::Host), Err(Error::StreamCapturing));
        let mut graph = core::ptr::null_mut();
        // SAFETY: as above; the call writes one handle, which is destroyed.
        unsafe {
            let ended = functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph);
            assert_eq!(ended, CUresult::CUDA_SUCCESS);
            assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
        }
        assert_eq!(buffer.as_host_slice().unwrap(), [1; 10]);
    }
}

#[test]
fn g3_memory_of_no_pool_that_is_dropped_in_a_capture_is_kept_until_all_work_is_done() {
    let fixture = Fixture::alone();
    let context = fixture.context();
    let [stream, other] = [(), ()].map(|()| Stream::new(&context).unwrap());
    let buffer = ManagedBuffer::<u8, _>::alloc(100, &stream).unwrap();
    let address = buffer.as_raw();
    let functions = fixture.driver().functions();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is live.
    assert_eq!(unsafe { functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode) }, CUresult::CUDA_SUCCESS);
    drop(buffer);
    let mut graph = core::ptr::null_mut();
    // SAFETY: as above; the call writes one handle, which is destroyed.
    unsafe {
        assert_eq!(functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph), CUresult::CUDA_SUCCESS);
        assert_eq!(functions.cuGraphDestroy.unwrap()(graph), CUresult::CUDA_SUCCESS);
    }
    // Nothing says that the device is done with it, so it is not used again before a wait.
    let another = ManagedBuffer::<u8, _>::alloc(100, &other).unwrap();
    assert_ne!(another.as_raw(), address);
    assert_eq!(context.trim_managed(), Ok(100));
}

#[test]
fn a_device_that_must_be_alone_with_managed_memory_keeps_the_host_out() {
    let concurrent = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    let fixture = Fixture::with(Simulator::builder().attribute(concurrent, 0));
    // Such a device has no pools of managed memory.
    let stream = fixture.stream();
    let mut buffer = ManagedBuffer::<u32, _>::alloc(10, &stream).unwrap();
    let refused = Error::ConcurrentManagedAccessUnsupported { device: 0 };
    assert!(refused.to_string().contains("CONCURRENT_MANAGED_ACCESS"));
    assert_eq!(buffer.as_host_slice().map(drop), Err(refused.clone()));
    assert_eq!(buffer.as_host_mut_slice().map(drop), Err(refused));
    // Copies work.
    buffer.as_mut_slice().copy_from_host(&[5; 10]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [5; 10]);
    let prefetched = buffer.prefetch(.., cupool::MemLocation::Device(fixture.device()));
    assert_eq!(prefetched.unwrap_err().code(), Some(CUresult::CUDA_ERROR_INVALID_DEVICE));
}

#[test]
fn a16_a_device_without_managed_memory_says_so_before_anything_is_made() {
    let managed = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    let fixture = Fixture::with(Simulator::builder().attribute(managed, 0));
    let stream = fixture.stream();
    let (refused, calls) = fixture.calls_of(|| ManagedBuffer::<u8, _>::alloc(10, &stream).unwrap_err());
    assert_eq!(refused, Error::ManagedMemoryUnsupported { device: 0 });
    assert!(refused.to_string().contains("MANAGED_MEMORY"));
    assert_eq!(calls, [Symbol::cuDeviceGetAttribute]);
}

#[test]
fn a1_without_its_calls_managed_memory_is_unsupported_by_name() {
    let fixture = Fixture::simulated();
    let without = |change: fn(&mut cupool::cuda_sys::Functions)| {
        let mut functions = *fixture.driver().functions();
        change(&mut functions);
        // SAFETY: the entries are the simulated driver's.
        unsafe { Driver::from_functions(Box::leak(Box::new(functions))) }
    };
    let alloc = |driver: Driver| {
        let stream = Stream::new(&driver.device(0).unwrap().primary_context().unwrap()).unwrap();
        ManagedBuffer::<u8, _>::alloc(10, &stream).map(drop)
    };
    let unsupported = |symbol| Err(Error::Unsupported(symbol));
    assert_eq!(alloc(without(|functions| functions.cuMemAllocManaged = None)), unsupported(Symbol::cuMemAllocManaged));
    // What could not be freed is not allocated.
    assert_eq!(alloc(without(|functions| functions.cuMemFree = None)), unsupported(Symbol::cuMemFree));
    let older = without(|functions| functions.cuPointerGetAttribute = None);
    let stream = Stream::new(&older.device(0).unwrap().primary_context().unwrap()).unwrap();
    let buffer = managed_pool(older.device(0).unwrap()).alloc::<u8, _>(10, &stream).unwrap();
    assert_eq!(buffer.into_managed().map(drop).unwrap_err().0, Error::Unsupported(Symbol::cuPointerGetAttribute));
    // For the pool to end before the driver.
    stream.synchronize().unwrap();
    assert_eq!(MemPool::destroy_dropped(older), Ok(0));
}

#[test]
fn a_pool_of_managed_memory_reuses_it_in_stream_order() {
    let fixture = Fixture::new();
    let (pool, stream) = (managed_pool(fixture.device()), fixture.stream());
    for value in 0..20 {
        let mut buffer: Buffer<u32, _> = pool.alloc(POOL_SIZE / 64, &stream).unwrap();
        buffer.fill(value).unwrap();
        let buffer = buffer.into_managed().unwrap();
        let seen = buffer.as_host_slice().unwrap();
        assert_eq!((seen[0], seen[POOL_SIZE / 64 - 1]), (value, value));
    }
}

#[test]
fn b5_after_a_reset_managed_memory_is_not_looked_at() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (managed_pool(fixture.device()), fixture.stream());
    let buffers = both(&pool, 10, &stream);
    fixture.sim().reset_device(0);
    let gone = Some(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    for buffer in &buffers {
        assert_eq!(buffer.as_host_slice().unwrap_err().code(), gone);
    }
    drop(buffers);
}
