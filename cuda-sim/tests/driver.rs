//! The table, the log, faults, and the states a whole driver can be in.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::ptr;

use cuda_sys::{CUresult, Need};
use cupool_sim::{Simulator, Symbol};
use rig::{OK, Rig, rig};

#[test]
fn every_entry_point_is_there() {
    let sim = Simulator::new();
    for symbol in Symbol::ALL {
        assert!(!sim.functions().address(*symbol).is_null(), "{symbol:?}");
    }
}

#[test]
fn entry_points_newer_than_the_driver_are_not() {
    let sim = Simulator::builder().driver_version(11030).build();
    for symbol in Symbol::ALL {
        let expected = symbol.since() <= 11030 || symbol.need() == Need::Required;
        assert_eq!(!sim.functions().address(*symbol).is_null(), expected, "{symbol:?}");
    }
    let mut version = 0;
    assert_eq!(unsafe { (sim.functions().cuDriverGetVersion)(&mut version) }, OK);
    assert_eq!(version, 11030);
}

#[test]
fn simulators_do_not_share_anything() {
    let (one, other) = (rig(), rig());
    let stream = one.stream();
    assert_eq!(other.query(stream), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(one.sim.live().streams, 1);
    assert_eq!(other.sim.live().streams, 0);
}

#[test]
fn calls_before_init_answer_not_initialized() {
    let sim = Simulator::new();
    let cuda = sim.functions();
    let mut value = 0;
    assert_eq!(unsafe { (cuda.cuDeviceGetCount)(&mut value) }, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    assert_eq!(unsafe { (cuda.cuMemAlloc.unwrap())(&mut 0, 10) }, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    assert_eq!(unsafe { (cuda.cuInit)(0) }, OK);
    assert_eq!(unsafe { (cuda.cuDeviceGetCount)(&mut value) }, OK);
    assert_eq!(value, 1);
}

#[test]
fn without_devices_init_answers_no_device() {
    let sim = Simulator::builder().devices(0).build();
    assert_eq!(unsafe { (sim.functions().cuInit)(0) }, CUresult::CUDA_ERROR_NO_DEVICE);
}

#[test]
fn calls_are_logged_in_order_and_counted() {
    let rig = rig();
    rig.sim.reset_log();
    let stream = rig.stream();
    rig.sync(stream);
    rig.sync(stream);
    assert_eq!(
        rig.sim.calls(),
        [Symbol::cuStreamCreateWithPriority, Symbol::cuStreamSynchronize, Symbol::cuStreamSynchronize]
    );
    assert_eq!(rig.sim.count(Symbol::cuStreamSynchronize), 2);
    assert_eq!(rig.sim.call_count(), 3);
}

#[test]
fn a_failed_call_has_no_effect() {
    let rig = rig();
    let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    rig.sim.fail(Symbol::cuStreamCreateWithPriority, 1, code);
    let before = rig.stream();
    let mut stream = ptr::null_mut();
    assert_eq!(unsafe { (rig.cuda.cuStreamCreateWithPriority)(&mut stream, 0, 0) }, code);
    assert!(stream.is_null());
    assert_eq!(rig.sim.live().streams, 1);
    rig.stream();
    assert_eq!(rig.destroy_stream(before), OK);
}

#[test]
fn faults_hit_one_index_all_from_one_or_every_call_of_a_name() {
    let rig = rig();
    let stream = rig.stream();
    let code = CUresult(777);
    rig.sim.fail_call(rig.sim.call_count() + 1, code);
    assert_eq!([(); 3].map(|()| rig.query(stream)), [OK, code, OK]);
    rig.sim.fail_every(Symbol::cuStreamQuery, code);
    assert_eq!(rig.query(stream), code);
    assert_eq!(rig.sync(stream), OK);
    rig.sim.clear_faults();
    rig.sim.fail_from(rig.sim.call_count() + 1, code);
    assert_eq!([(); 3].map(|()| rig.query(stream)), [OK, code, code]);
    rig.sim.clear_faults();
    assert_eq!(rig.query(stream), OK);
}

#[test]
fn after_shutdown_every_call_answers_deinitialized() {
    let rig = rig();
    let stream = rig.stream();
    rig.sim.shut_down();
    assert_eq!(rig.destroy_stream(stream), CUresult::CUDA_ERROR_DEINITIALIZED);
    assert_eq!(unsafe { (rig.cuda.cuInit)(0) }, CUresult::CUDA_ERROR_DEINITIALIZED);
}

#[test]
fn after_the_simulator_has_ended_calls_answer_deinitialized() {
    let rig = rig();
    let stream = rig.stream();
    let Rig { sim, cuda, .. } = rig;
    drop(sim);
    let code = unsafe { (cuda.cuStreamQuery)(stream) };
    // Another test may have taken the slot over.
    assert!([4, 3, 400].contains(&code.0), "{code:?}");
}

#[test]
fn a_sticky_error_is_answered_by_every_later_call() {
    let rig = rig();
    let stream = rig.stream();
    rig.sim.inject_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_eq!(rig.query(stream), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_eq!(rig.destroy_stream(stream), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let mut name = ptr::null();
    assert_eq!(unsafe { (rig.cuda.cuGetErrorName.unwrap())(CUresult(700), &mut name) }, OK);
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    assert_eq!(name, c"CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn after_a_device_reset_objects_answer_context_is_destroyed() {
    let rig = rig();
    let (stream, event, pool) = (rig.stream(), rig.event(0), rig.pool());
    let pointer = rig.alloc(10, pool, stream).unwrap();
    rig.sim.reset_device(0);
    let gone = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_eq!(rig.free(pointer, stream), gone);
    assert_eq!(rig.sync(stream), gone);
    assert_eq!(rig.destroy_stream(stream), gone);
    assert_eq!(unsafe { (rig.cuda.cuEventDestroy)(event) }, gone);
    assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(pool) }, OK);
    assert_eq!(rig.sim.live().streams, 0);
    assert_eq!(rig.sim.live().reserved_bytes, 0);
}

#[test]
fn a_thread_without_a_context_may_use_created_streams_but_make_none() {
    let rig = rig();
    let (stream, pool, event) = (rig.stream(), rig.pool(), rig.event(0));
    let mut popped = ptr::null_mut();
    assert_eq!(unsafe { (rig.cuda.cuCtxPopCurrent)(&mut popped) }, OK);
    assert_eq!(popped, rig.context);
    let pointer = rig.alloc(1024, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 1, 1024, stream), OK);
    assert_eq!(rig.upload(pointer, &[7; 64], stream), OK);
    assert_eq!(rig.download(pointer, 64, stream), [7; 64]);
    assert_eq!(rig.record(event, stream), OK);
    assert_eq!(rig.wait(stream, event), OK);
    assert_eq!(unsafe { (rig.cuda.cuEventSynchronize)(event) }, OK);
    assert_eq!(rig.query(stream), OK);
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.trim(pool), OK);
    let none = CUresult::CUDA_ERROR_INVALID_CONTEXT;
    unsafe {
        assert_eq!((rig.cuda.cuStreamCreateWithPriority)(&mut ptr::null_mut(), 1, 0), none);
        assert_eq!((rig.cuda.cuEventCreate)(&mut ptr::null_mut(), 0), none);
        assert_eq!((rig.cuda.cuMemAlloc.unwrap())(&mut 0, 10), none);
        assert_eq!((rig.cuda.cuMemHostAlloc.unwrap())(&mut ptr::null_mut(), 10, 0), none);
        assert_eq!((rig.cuda.cuMemGetInfo.unwrap())(&mut 0, &mut 0), none);
        assert_eq!((rig.cuda.cuCtxSynchronize.unwrap())(), none);
        assert_eq!((rig.cuda.cuMemAllocAsync.unwrap())(&mut 0, 10, ptr::null_mut()), none);
    }
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn contexts_are_current_by_thread() {
    let rig = rig();
    let cuda = rig.cuda;
    let seen = std::thread::spawn(move || {
        let mut current = ptr::dangling_mut();
        let code = unsafe { (cuda.cuCtxGetCurrent.unwrap())(&mut current) };
        (code, current.is_null())
    });
    assert_eq!(seen.join().unwrap(), (OK, true));
    assert_eq!(rig.sim.live().pushed_contexts, 1);
    assert_eq!(rig.sim.live().primary_retains, 1);
    assert_eq!(unsafe { (cuda.cuDevicePrimaryCtxRelease)(0) }, OK);
    assert_eq!(unsafe { (cuda.cuDevicePrimaryCtxRelease)(0) }, CUresult::CUDA_ERROR_INVALID_CONTEXT);
}

#[cfg(unix)]
#[test]
fn after_fork_the_child_is_not_initialised_yet_allocation_seems_to_work() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    // SAFETY: the child calls nothing that another thread may hold a lock of.
    match unsafe { libc::fork() } {
        0 => {
            let mut context = ptr::null_mut();
            let codes = unsafe {
                [
                    (rig.cuda.cuInit)(0).0,
                    (rig.cuda.cuCtxGetCurrent.unwrap())(&mut context).0,
                    (rig.cuda.cuMemAllocFromPoolAsync)(&mut 0, 10, pool, stream).0,
                ]
            };
            let status = if codes == [3, 3, 0] { 0 } else { 1 };
            unsafe { libc::_exit(status) }
        }
        child => {
            let mut status = 0;
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
}

#[test]
fn the_shared_driver_lives_on() {
    let cuda = cupool_sim::functions();
    assert_eq!(unsafe { (cuda.cuInit)(0) }, OK);
    assert!(ptr::eq(cuda, cupool_sim::functions()));
}
