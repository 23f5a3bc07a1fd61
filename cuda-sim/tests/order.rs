//! Streams, events, copies: what runs when.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::{ffi::c_void, ptr};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use cuda_sys::*;
use cupool_sim::{Misuse, Simulator};
use rig::{INVALID, OK, Rig, rig};

#[test]
fn work_runs_when_somebody_waits() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(8, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 1, 8, stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 2);
    assert_eq!(rig.query(stream), CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(rig.query(stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 0);
}

#[test]
fn stream_handles_are_used_again_and_ids_are_not() {
    let rig = rig();
    let id = |stream| {
        let mut id = 0;
        assert_eq!(unsafe { (rig.cuda.cuStreamGetId.unwrap())(stream, &mut id) }, OK);
        id
    };
    let first = rig.stream();
    let first_id = id(first);
    assert_eq!(rig.destroy_stream(first), OK);
    assert_eq!(rig.query(first), CUresult::CUDA_ERROR_INVALID_HANDLE);
    let second = rig.stream();
    assert_eq!(second, first);
    assert_ne!(id(second), first_id);
    assert_eq!(rig.misuses(), [Misuse::UnknownHandle]);
}

#[test]
fn streams_answer_what_they_were_made_with() {
    let rig = rig();
    let (mut stream, mut flags, mut priority, mut context) = (ptr::null_mut(), 9, 9, ptr::null_mut());
    let (mut least, mut greatest) = (9, 9);
    unsafe {
        assert_eq!((rig.cuda.cuCtxGetStreamPriorityRange.unwrap())(&mut least, &mut greatest), OK);
        assert_eq!((rig.cuda.cuStreamCreateWithPriority)(&mut stream, 1, -100), OK);
        assert_eq!((rig.cuda.cuStreamGetFlags.unwrap())(stream, &mut flags), OK);
        assert_eq!((rig.cuda.cuStreamGetPriority.unwrap())(stream, &mut priority), OK);
        assert_eq!((rig.cuda.cuStreamGetCtx.unwrap())(stream, &mut context), OK);
    }
    assert_eq!((flags, priority, least, greatest), (1, -5, 0, -5));
    assert_eq!(context, rig.context);
}

#[test]
fn an_event_orders_two_streams() {
    for seed in 0..20 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (a, b, pool, event) = (rig.stream(), rig.stream(), rig.pool(), rig.event(2));
        let pointer = rig.alloc(64, pool, a).unwrap();
        assert_eq!(rig.fill(pointer, 1, 64, a), OK);
        assert_eq!(rig.record(event, a), OK);
        assert_eq!(rig.wait(b, event), OK);
        assert_eq!(rig.fill(pointer, 2, 64, b), OK);
        assert_eq!(rig.download(pointer, 64, b), [2; 64]);
        assert!(rig.sim.findings().is_empty(), "{:?}", rig.sim.findings());
    }
}

#[test]
fn use_on_another_stream_without_order_is_found() {
    let rig = rig();
    let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
    let pointer = rig.alloc(64, pool, a).unwrap();
    assert_eq!(rig.fill(pointer, 2, 64, b), OK);
    assert_eq!(rig.sync(b), OK);
    assert_eq!(rig.misuses(), [Misuse::UseBeforeAllocation]);
    assert_eq!(rig.fill(pointer, 2, 64, b), OK);
    assert_eq!(rig.free(pointer, a), OK);
    assert_eq!(rig.sync(a), OK);
    assert_eq!(rig.sync(b), OK);
    assert_eq!(rig.misuses(), [Misuse::UseAfterFree]);
}

#[test]
fn a_wait_takes_the_record_at_the_time_of_the_call() {
    let rig = rig();
    let (a, b, event) = (rig.stream(), rig.stream(), rig.event(2));
    assert_eq!(rig.wait(b, event), OK);
    assert_eq!(rig.query(b), OK);
    assert_eq!(rig.record(event, a), OK);
    assert_eq!(rig.wait(b, event), OK);
    let (c, pool) = (rig.stream(), rig.pool());
    rig.alloc(8, pool, c).unwrap();
    assert_eq!(rig.record(event, c), OK);
    assert_eq!(rig.sync(b), OK);
    assert_eq!(rig.sim.live().pending_operations, 2);
}

#[test]
fn events_answer_not_ready_and_unrecorded() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let (start, end, untimed) = (rig.event(0), rig.event(0), rig.event(2));
    let elapsed = |start, end| {
        let mut milliseconds = -1.0;
        let code = unsafe { (rig.cuda.cuEventElapsedTime.unwrap())(&mut milliseconds, start, end) };
        (code, milliseconds)
    };
    assert_eq!(elapsed(start, end).0, CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(unsafe { (rig.cuda.cuEventQuery)(start) }, OK);
    rig.record(start, stream);
    rig.alloc(8, pool, stream).unwrap();
    rig.record(end, stream);
    rig.record(untimed, stream);
    assert_eq!(elapsed(start, end).0, CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(unsafe { (rig.cuda.cuEventQuery)(end) }, CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(unsafe { (rig.cuda.cuEventSynchronize)(end) }, OK);
    let (code, milliseconds) = elapsed(start, end);
    assert!(code == OK && milliseconds > 0.0);
    assert_eq!(elapsed(start, untimed).0, CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn recording_across_contexts_is_refused_and_waiting_is_not() {
    let rig = Rig::with(Simulator::builder().devices(2));
    let (stream, event) = (rig.stream(), rig.event(0));
    let mut context = ptr::null_mut();
    unsafe {
        assert_eq!((rig.cuda.cuDevicePrimaryCtxRetain)(&mut context, 1), OK);
        assert_eq!((rig.cuda.cuCtxPushCurrent)(context), OK);
    }
    let there = rig.stream();
    assert_eq!(rig.record(event, there), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(rig.record(event, stream), OK);
    assert_eq!(rig.wait(there, event), OK);
    assert_eq!(rig.sync(there), OK);
}

#[test]
fn the_legacy_default_stream_orders_blocking_streams() {
    for seed in 0..20 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (blocking, other, pool, default) = (rig.stream_with(0), rig.stream_with(0), rig.pool(), ptr::null_mut());
        let pointer = rig.alloc(64, pool, blocking).unwrap();
        assert_eq!(rig.fill(pointer, 1, 64, default), OK);
        assert_eq!(rig.fill(pointer, 2, 64, other), OK);
        assert_eq!(rig.download(pointer, 64, other), [2; 64]);
        assert!(rig.sim.findings().is_empty());
    }
}

#[test]
fn a_pageable_source_is_consumed_by_the_call_and_a_pinned_one_is_not() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(64, pool, stream).unwrap();
    let mut source = vec![1; 64];
    assert_eq!(rig.upload(pointer, &source, stream), OK);
    source.fill(9);
    assert_eq!(rig.download(pointer, 64, stream), [1; 64]);
    let pinned = rig.pinned(64);
    unsafe {
        pinned.write_bytes(2, 64);
        assert_eq!((rig.cuda.cuMemcpyHtoDAsync)(pointer, pinned.cast(), 64, stream), OK);
        pinned.write_bytes(3, 64);
    }
    assert_eq!(rig.download(pointer, 64, stream), [3; 64]);
    unsafe {
        let register = rig.cuda.cuMemHostRegister.unwrap();
        assert_eq!(register(source.as_mut_ptr().cast(), 64, 0), OK);
        let already = CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        assert_eq!(register(source.as_mut_ptr().cast(), 64, 0), already);
        assert_eq!(rig.upload(pointer, &source, stream), OK);
        source.as_mut_ptr().write_bytes(4, 64);
        assert_eq!(rig.download(pointer, 64, stream), [4; 64]);
        assert_eq!((rig.cuda.cuMemHostUnregister.unwrap())(source.as_mut_ptr().cast()), OK);
        assert_eq!((rig.cuda.cuMemFreeHost.unwrap())(pinned.cast()), OK);
    }
    assert_eq!(rig.misuses(), [Misuse::HostRace; 2]);
    assert_eq!((rig.sim.live().host_allocations, rig.sim.live().registered_ranges), (0, 0));
}

#[test]
fn pageable_copies_can_be_late() {
    let rig = Rig::with(Simulator::builder().pageable_async(true));
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(64, pool, stream).unwrap();
    let source = [1; 64];
    let mut target = [0_u8; 64];
    assert_eq!(rig.upload(pointer, &source, stream), OK);
    unsafe {
        assert_eq!((rig.cuda.cuMemcpyDtoHAsync)(target.as_mut_ptr().cast(), pointer, 64, stream), OK);
        assert_eq!(target.as_ptr().read_volatile(), 0);
    }
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(unsafe { target.as_ptr().read_volatile() }, 1);
}

#[test]
fn pinned_memory_freed_in_use_is_found() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(64, pool, stream).unwrap();
    let pinned = rig.pinned(64);
    unsafe {
        assert_eq!((rig.cuda.cuMemcpyDtoHAsync)(pinned.cast(), pointer, 64, stream), OK);
        assert_eq!((rig.cuda.cuMemFreeHost.unwrap())(pinned.cast()), OK);
    }
    assert_eq!(rig.misuses(), [Misuse::FreedInUse]);
}

#[test]
fn ranges_that_are_not_allocated_are_refused_and_found() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(64, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 1, 65, stream), INVALID);
    assert_eq!(rig.upload(pointer + 60, &[0; 8], stream), INVALID);
    assert_eq!(rig.fill(pointer + (1 << 40), 1, 1, stream), INVALID);
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.fill(pointer, 1, 1, stream), INVALID);
    use Misuse::{OutOfBounds, UnknownAddress, UseAfterFree};
    assert_eq!(rig.misuses(), [OutOfBounds, OutOfBounds, UnknownAddress, UseAfterFree]);
}

#[test]
fn fills_and_copies_of_all_widths_round_trip() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let bytes = 100_000;
    let (a, b) = (rig.alloc(bytes, pool, stream).unwrap(), rig.alloc(bytes, pool, stream).unwrap());
    let data: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    assert_eq!(rig.upload(a, &data, stream), OK);
    unsafe {
        assert_eq!((rig.cuda.cuMemcpyDtoDAsync)(b + 3, a + 5, bytes - 10, stream), OK);
        assert_eq!((rig.cuda.cuMemsetD16Async)(a, 0x1234, 10, stream), OK);
        assert_eq!((rig.cuda.cuMemsetD32Async)(a + 40, 0x1234_5678, 9000, stream), OK);
        assert_eq!((rig.cuda.cuMemsetD32Async)(a + 41, 0, 1, stream), INVALID);
    }
    assert_eq!(rig.download(b + 3, bytes - 10, stream), data[5..bytes - 5]);
    let a = rig.download(a, bytes, stream);
    assert_eq!(a[..20], [0x34, 0x12].repeat(10));
    assert_eq!(a[20..40], data[20..40]);
    assert_eq!(a[40..36_040], [0x78, 0x56, 0x34, 0x12].repeat(9000));
    assert_eq!(a[36_040..], data[36_040..]);
}

#[test]
fn batched_copies_take_pinned_sources_during_the_call_if_told_to() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(64, pool, stream).unwrap();
    let pinned = rig.pinned(64);
    let nowhere = CUmemLocation { type_: CUmemLocationType(0), id: 0 };
    for (order, seen) in [(1, 6), (2, 5), (3, 6)] {
        let mut attributes = CUmemcpyAttributes_v1 {
            srcAccessOrder: CUmemcpySrcAccessOrder(order),
            srcLocHint: nowhere,
            dstLocHint: nowhere,
            flags: 0,
        };
        let (mut target, mut source, mut bytes, mut start) = (pointer, pinned.expose_provenance() as u64, 64, 0);
        let mut failed = 0;
        unsafe {
            pinned.write_bytes(5, 64);
            let code = (rig.cuda.cuMemcpyBatchAsync.unwrap())(
                &mut target,
                &mut source,
                &mut bytes,
                1,
                &mut attributes,
                &mut start,
                1,
                &mut failed,
                stream,
            );
            assert_eq!(code, OK);
            pinned.write_bytes(6, 64);
        }
        assert_eq!(failed, usize::MAX);
        assert_eq!(rig.download(pointer, 64, stream), [seen; 64], "order {order}");
    }
}

static RUNS: AtomicU32 = AtomicU32::new(0);

extern "C" fn host_function(cuda: *mut c_void) {
    // SAFETY: the test passes the table, which lives for ever.
    let cuda = unsafe { &*cuda.cast::<cupool_sim::Functions>() };
    // SAFETY: no pointers but out-parameters.
    let code = unsafe { (cuda.cuDeviceGetCount)(&mut 0) };
    if code == CUresult::CUDA_ERROR_NOT_PERMITTED {
        RUNS.fetch_add(1, SeqCst);
    }
}

#[test]
fn host_functions_run_in_order_and_may_not_call_the_driver() {
    let rig = rig();
    let stream = rig.stream();
    let data = ptr::from_ref(rig.cuda).cast_mut().cast();
    assert_eq!(unsafe { (rig.cuda.cuLaunchHostFunc.unwrap())(stream, Some(host_function), data) }, OK);
    assert_eq!(RUNS.load(SeqCst), 0);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(RUNS.load(SeqCst), 1);
    assert_eq!(rig.misuses(), [Misuse::CallInHostFunction]);
}

#[test]
fn kernels_read_and_write_by_device_pointer() {
    let rig = rig();
    rig.sim.register_kernel("increment", &[8, 4], |kernel| {
        let (pointer, count) = (kernel.parameter_u64(0), kernel.parameter_u64(1) as usize);
        let bytes: Vec<u8> = kernel.read(pointer, count).iter().map(|byte| byte + 1).collect();
        kernel.write(pointer, &bytes);
    });
    let (stream, pool) = (rig.stream(), rig.pool());
    let mut pointer = rig.alloc(64, pool, stream).unwrap();
    let mut count = 64_u32;
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let mut parameters: [*mut c_void; 2] = [(&raw mut pointer).cast(), (&raw mut count).cast()];
    unsafe {
        assert_eq!((rig.cuda.cuModuleLoadData.unwrap())(&mut module, c".version 8.0".as_ptr().cast()), OK);
        let find = rig.cuda.cuModuleGetFunction.unwrap();
        assert_eq!(find(&mut function, module, c"absent".as_ptr()), CUresult::CUDA_ERROR_NOT_FOUND);
        assert_eq!(find(&mut function, module, c"increment".as_ptr()), OK);
        assert_eq!(rig.fill(pointer, 4, 64, stream), OK);
        let launch = rig.cuda.cuLaunchKernel.unwrap();
        let code = launch(function, 1, 1, 1, 64, 1, 1, 0, stream, parameters.as_mut_ptr(), ptr::null_mut());
        assert_eq!(code, OK);
        let refused = launch(function, 0, 1, 1, 64, 1, 1, 0, stream, parameters.as_mut_ptr(), ptr::null_mut());
        assert_eq!(refused, INVALID);
    }
    assert_eq!(rig.download(pointer, 64, stream), [5; 64]);
    assert_eq!(unsafe { (rig.cuda.cuModuleUnload.unwrap())(module) }, OK);
    assert_eq!(rig.sim.live().modules, 0);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn a_long_queue_is_worked_off() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(8, pool, stream).unwrap();
    for _ in 0..5000 {
        assert_eq!(rig.fill(pointer, 1, 8, stream), OK);
    }
    assert!(rig.sim.live().pending_operations <= 1025);
}

#[test]
fn pointers_are_described() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(100, pool, stream).unwrap();
    let pinned = rig.pinned(8).expose_provenance() as u64;
    let ask = |pointer| {
        let mut kind = 0_u32;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        let code = unsafe { (rig.cuda.cuPointerGetAttribute.unwrap())((&raw mut kind).cast(), attribute, pointer) };
        (code, kind)
    };
    assert_eq!(ask(pointer + 99), (OK, 2));
    assert_eq!(ask(pinned), (OK, 1));
    assert_eq!(ask(ptr::from_ref(&pointer).addr() as u64).0, INVALID);
    let (mut base, mut bytes) = (0, 0);
    assert_eq!(unsafe { (rig.cuda.cuMemGetAddressRange.unwrap())(&mut base, &mut bytes, pointer + 7) }, OK);
    assert_eq!((base, bytes), (pointer, 100));
    assert!(rig.sim.findings().is_empty());
}
