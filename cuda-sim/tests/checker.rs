//! The order of memory's uses: what is found whatever ran first, and what is not, because it is ordered.
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]
#![allow(clippy::indexing_slicing, reason = "this is test code")]

mod rig;

use core::{ffi::c_void, ptr};

use cuda_sys::*;
use cupool_sim::{Misuse, Simulator, Symbol};
use rig::{OK, Rig};

/// Runs a program with many seeds, then the rest of its work: each time these misuses must have been found.
#[track_caller]
fn finds(expected: &[Misuse], program: impl Fn(&Rig)) {
    for seed in 0..20 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        program(&rig);
        assert_eq!(unsafe { (rig.cuda.cuCtxSynchronize.unwrap())() }, OK);
        let found: Vec<String> = rig.sim.findings().iter().map(ToString::to_string).collect();
        assert_eq!(rig.misuses(), expected, "seed {seed}: {found:#?}");
    }
}

/// What is found with order checked is not without.
#[track_caller]
fn finds_if_asked(misuse: Misuse, program: impl Fn(&Rig)) {
    finds(&[misuse], &program);
    let rig = Rig::with(Simulator::builder().check_order(false));
    program(&rig);
    assert_eq!(rig.misuses(), []);
}

fn fence(rig: &Rig, earlier: CUstream, later: CUstream) {
    let event = rig.event(2);
    assert_eq!(rig.record(event, earlier), OK);
    assert_eq!(rig.wait(later, event), OK);
}

#[test]
fn a_use_that_nothing_orders_after_the_allocation_is_found() {
    finds_if_asked(Misuse::UnorderedUse, |rig| {
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        work_off(rig, a);
        assert_eq!(rig.fill(pointer, 1, 64, b), OK);
    });
}

/// Has a stream's work run without the host learning of it.
fn work_off(rig: &Rig, stream: CUstream) {
    let apart = rig.stream();
    fence(rig, stream, apart);
    // A long queue is worked off by the driver on its own account.
    let pointer = rig.alloc(8, rig.pool(), apart).unwrap();
    for _ in 0..1100 {
        assert_eq!(rig.fill(pointer, 1, 8, apart), OK);
    }
}

#[test]
fn a_free_that_nothing_orders_after_a_use_is_found() {
    finds_if_asked(Misuse::UnorderedFree, |rig| {
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        fence(rig, a, b);
        assert_eq!(rig.fill(pointer, 1, 64, b), OK);
        work_off(rig, b);
        assert_eq!(rig.free(pointer, a), OK);
    });
}

#[test]
fn a_free_that_nothing_orders_after_the_allocation_is_found() {
    finds_if_asked(Misuse::UnorderedFree, |rig| {
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        work_off(rig, a);
        assert_eq!(rig.free(pointer, b), OK);
    });
}

#[test]
fn writes_of_the_same_bytes_without_order_are_found_with_both_operations() {
    for seed in 0..50 {
        let rig = Rig::with(Simulator::builder().seed(seed));
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        fence(&rig, a, b);
        assert_eq!(rig.fill(pointer, 1, 40, a), OK);
        assert_eq!(rig.upload(pointer + 39, &[1; 10], b), OK);
        assert_eq!((rig.sync(a), rig.sync(b)), (OK, OK));
        let findings = rig.sim.take_findings();
        assert_eq!(findings.len(), 1);
        let (finding, earlier) = (&findings[0], findings[0].earlier.unwrap());
        assert_eq!((finding.misuse, earlier.entry), (Misuse::DataRace, Symbol::cuMemsetD8Async));
        assert_eq!(finding.operation.entry, Symbol::cuMemcpyHtoDAsync);
        assert_ne!(finding.operation.stream, earlier.stream);
    }
}

#[test]
fn a_read_and_a_write_without_order_are_found_and_two_reads_are_not() {
    finds(&[Misuse::DataRace], |rig| {
        let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
        let [first, second, third] = [0; 3].map(|_| rig.alloc(64, pool, a).unwrap());
        assert_eq!(rig.fill(first, 1, 64, a), OK);
        fence(rig, a, b);
        unsafe {
            assert_eq!((rig.cuda.cuMemcpyDtoDAsync)(second, first, 64, a), OK);
            assert_eq!((rig.cuda.cuMemcpyDtoDAsync)(third, first, 64, b), OK);
        }
        assert_eq!(rig.fill(first, 2, 1, b), OK);
    });
}

#[test]
fn different_bytes_of_one_allocation_are_nobodys_concern() {
    finds(&[], |rig| {
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        fence(rig, a, b);
        assert_eq!(rig.fill(pointer, 1, 32, a), OK);
        assert_eq!(rig.fill(pointer + 32, 2, 32, b), OK);
        fence(rig, b, a);
        assert_eq!(rig.free(pointer, a), OK);
    });
}

#[test]
fn order_passes_on_through_streams_and_events() {
    finds(&[], |rig| {
        let [a, b, c] = [0; 3].map(|_| rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        fence(rig, a, b);
        assert_eq!(rig.fill(pointer, 1, 64, b), OK);
        fence(rig, b, c);
        assert_eq!(rig.fill(pointer, 2, 64, c), OK);
        fence(rig, c, a);
        assert_eq!(rig.free(pointer, a), OK);
    });
}

#[test]
fn a_wait_takes_what_was_recorded_and_not_what_comes_later() {
    finds(&[Misuse::DataRace], |rig| {
        let (a, b, event) = (rig.stream(), rig.stream(), rig.event(2));
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        assert_eq!(rig.record(event, a), OK);
        assert_eq!(rig.fill(pointer, 1, 64, a), OK);
        assert_eq!(rig.wait(b, event), OK);
        assert_eq!(rig.record(event, a), OK);
        assert_eq!(rig.fill(pointer, 2, 64, b), OK);
    });
}

#[test]
fn the_hosts_waits_order_what_is_enqueued_after_them_and_nothing_before() {
    type Wait = fn(&Rig, CUstream, CUevent);
    let waits: [Wait; 5] = [
        |rig, stream, _| assert_eq!(rig.sync(stream), OK),
        |rig, _, event| assert_eq!(unsafe { (rig.cuda.cuEventSynchronize)(event) }, OK),
        |rig, _, _| assert_eq!(unsafe { (rig.cuda.cuCtxSynchronize.unwrap())() }, OK),
        |rig, stream, _| while rig.query(stream) != OK {},
        |rig, _, event| while unsafe { (rig.cuda.cuEventQuery)(event) } != OK {},
    ];
    for wait in waits {
        let program = |rig: &Rig, before: bool| {
            let (a, b, event) = (rig.stream(), rig.stream(), rig.event(2));
            let pointer = rig.alloc(64, rig.pool(), a).unwrap();
            fence(rig, a, b);
            assert_eq!(rig.fill(pointer, 1, 64, a), OK);
            assert_eq!(rig.record(event, a), OK);
            if before {
                assert_eq!(rig.fill(pointer, 2, 64, b), OK);
            }
            wait(rig, a, event);
            if !before {
                assert_eq!(rig.fill(pointer, 2, 64, b), OK);
            }
        };
        finds(&[], |rig| program(rig, false));
        finds(&[Misuse::DataRace], |rig| program(rig, true));
    }
}

#[test]
fn the_legacy_default_stream_orders_also_what_has_run() {
    finds(&[], |rig| {
        let (blocking, default) = (rig.stream_with(0), ptr::null_mut());
        let pointer = rig.alloc(64, rig.pool(), blocking).unwrap();
        work_off(rig, blocking);
        assert_eq!(rig.fill(pointer, 1, 64, default), OK);
        assert_eq!(rig.fill(pointer, 2, 64, blocking), OK);
    });
    finds(&[Misuse::DataRace], |rig| {
        let (apart, default) = (rig.stream(), ptr::null_mut());
        let pointer = rig.alloc(64, rig.pool(), apart).unwrap();
        assert_eq!(rig.sync(apart), OK);
        assert_eq!(rig.fill(pointer, 1, 64, default), OK);
        assert_eq!(rig.fill(pointer, 2, 64, apart), OK);
    });
}

extern "C" fn nothing(_: *mut c_void) {}

#[test]
fn a_host_function_can_tell_the_host() {
    finds(&[], |rig| {
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        assert_eq!(rig.fill(pointer, 1, 64, a), OK);
        assert_eq!(unsafe { (rig.cuda.cuLaunchHostFunc.unwrap())(a, Some(nothing), ptr::null_mut()) }, OK);
        work_off(rig, a);
        assert_eq!(rig.fill(pointer, 2, 64, b), OK);
    });
}

#[test]
fn work_of_a_destroyed_stream_is_not_ordered_before_that_of_the_next() {
    finds(&[Misuse::DataRace], |rig| {
        let (a, b) = (rig.stream(), rig.stream());
        let pointer = rig.alloc(64, rig.pool(), a).unwrap();
        fence(rig, a, b);
        assert_eq!(rig.fill(pointer, 1, 64, b), OK);
        work_off(rig, b);
        assert_eq!(rig.destroy_stream(b), OK);
        let again = rig.stream();
        assert_eq!(again, b);
        fence(rig, a, again);
        assert_eq!(rig.fill(pointer, 2, 64, again), OK);
    });
}

#[test]
fn memory_that_a_pool_hands_out_again_is_new_memory() {
    finds(&[], |rig| {
        let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool_of(32 << 20));
        let pointer = rig.alloc(64, pool, a).unwrap();
        assert_eq!(rig.fill(pointer, 1, 64, a), OK);
        assert_eq!(rig.free(pointer, a), OK);
        // In stream order, and once the free has run, whether or not anybody was told.
        assert_eq!(rig.alloc(64, pool, a).unwrap(), pointer);
        assert_eq!(rig.free(pointer, a), OK);
        work_off(rig, a);
        assert_eq!(rig.alloc(64, pool, b).unwrap(), pointer);
        assert_eq!(rig.fill(pointer, 1, 64, b), OK);
        // And by waiting in stream order, if there is nothing else.
        let pool = rig.pool_of(32 << 20);
        let large = rig.alloc(32 << 20, pool, b).unwrap();
        assert_eq!(rig.fill(large, 1, 32 << 20, b), OK);
        assert_eq!(rig.free(large, b), OK);
        assert_eq!(rig.alloc(32 << 20, pool, a).unwrap(), large);
        assert_eq!(rig.fill(large, 1, 32 << 20, a), OK);
    });
}

#[test]
fn that_a_pool_hands_memory_out_again_orders_nothing_else() {
    finds(&[Misuse::DataRace], |rig| {
        let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
        let (kept, freed) = (rig.alloc(64, pool, a).unwrap(), rig.alloc(64, pool, a).unwrap());
        fence(rig, a, b);
        assert_eq!(rig.fill(kept, 1, 64, a), OK);
        assert_eq!(rig.free(freed, a), OK);
        work_off(rig, a);
        assert_eq!(rig.alloc(64, pool, b).unwrap(), freed);
        assert_eq!(rig.fill(kept, 2, 64, b), OK);
    });
}

#[test]
fn a_pool_follows_the_dependencies_that_events_make_if_it_may() {
    for follows in [true, false] {
        let rig = Rig::with(Simulator::builder());
        let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
        let follow = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
        let mut flag = i32::from(follows);
        assert_eq!(unsafe { (rig.cuda.cuMemPoolSetAttribute)(pool, follow, (&raw mut flag).cast()) }, OK);
        let pointer = rig.alloc(64, pool, a).unwrap();
        assert_eq!(rig.free(pointer, a), OK);
        assert_ne!(rig.alloc(64, pool, b).unwrap(), pointer);
        fence(&rig, a, b);
        assert_eq!(rig.alloc(64, pool, b).unwrap() == pointer, follows);
        assert_eq!(rig.sync(b), OK);
        assert!(rig.sim.findings().is_empty());
    }
}

#[test]
fn pinned_memory_is_checked_as_device_memory_is() {
    finds(&[Misuse::DataRace], |rig| {
        let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
        let (from, to) = (rig.alloc(64, pool, a).unwrap(), rig.alloc(64, pool, b).unwrap());
        let pinned = rig.pinned(64);
        unsafe {
            assert_eq!((rig.cuda.cuMemcpyDtoHAsync)(pinned.cast(), from, 64, a), OK);
            assert_eq!((rig.cuda.cuMemcpyHtoDAsync)(to, pinned.cast(), 64, b), OK);
        }
    });
}

#[test]
fn pinned_memory_that_is_freed_before_the_host_has_waited_is_found() {
    finds(&[Misuse::FreedInUse], |rig| {
        let stream = rig.stream();
        let (pointer, pinned) = (rig.alloc(64, rig.pool(), stream).unwrap(), rig.pinned(64));
        unsafe {
            assert_eq!((rig.cuda.cuMemcpyDtoHAsync)(pinned.cast(), pointer, 64, stream), OK);
            work_off(rig, stream);
            assert_eq!((rig.cuda.cuMemFreeHost.unwrap())(pinned.cast()), OK);
        }
    });
}

#[test]
fn a_source_that_the_host_changes_before_it_has_waited_is_found() {
    for (waits, runs) in [(false, false), (false, true), (true, false)] {
        let expected: &[Misuse] = if waits { &[] } else { &[Misuse::HostRace] };
        finds(expected, |rig| {
            let stream = rig.stream();
            let (pointer, pinned) = (rig.alloc(64, rig.pool(), stream).unwrap(), rig.pinned(64));
            unsafe {
                pinned.write_bytes(1, 64);
                assert_eq!((rig.cuda.cuMemcpyHtoDAsync)(pointer, pinned.cast(), 64, stream), OK);
                if waits {
                    assert_eq!(rig.sync(stream), OK);
                }
                if runs {
                    work_off(rig, stream);
                }
                pinned.add(20).write(2);
                assert_eq!((rig.cuda.cuMemcpyHtoDAsync)(pointer, pinned.add(10).cast(), 20, stream), OK);
            }
        });
    }
}

#[test]
fn a_source_that_the_device_changes_is_no_concern_of_the_hosts() {
    finds(&[], |rig| {
        let stream = rig.stream();
        let (pointer, pinned) = (rig.alloc(64, rig.pool(), stream).unwrap(), rig.pinned(64));
        assert_eq!(rig.fill(pointer, 7, 64, stream), OK);
        for _ in 0..3 {
            unsafe {
                assert_eq!((rig.cuda.cuMemcpyDtoHAsync)(pinned.cast(), pointer, 64, stream), OK);
                assert_eq!((rig.cuda.cuMemcpyHtoDAsync)(pointer, pinned.cast(), 64, stream), OK);
                assert_eq!((rig.cuda.cuMemsetD8Async)(pinned.expose_provenance() as u64, 3, 9, stream), OK);
                assert_eq!((rig.cuda.cuMemcpyHtoDAsync)(pointer, pinned.cast(), 64, stream), OK);
            }
        }
    });
}
