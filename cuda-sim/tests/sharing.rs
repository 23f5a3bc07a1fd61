//! Memory and events that several simulated drivers have: here two in one process, which share as two processes do.
#![cfg(target_os = "linux")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

mod rig;

use core::ptr;
use std::os::fd::{FromRawFd, OwnedFd};

use cuda_sys::*;
use cupool_sim::Simulator;
use rig::{INVALID, OK, Rig, props, rig};

const KIND: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const SHARED_EVENT: u32 = 6;

fn shareable(rig: &Rig) -> CUmemoryPool {
    let mut props = props();
    (props.handleTypes, props.maxSize) = (KIND, 32 << 20);
    rig.try_pool(&props).unwrap()
}

fn export_pool(rig: &Rig, pool: CUmemoryPool) -> i32 {
    let mut file = -1_i32;
    let export = rig.cuda.cuMemPoolExportToShareableHandle.unwrap();
    assert_eq!(unsafe { export((&raw mut file).cast(), pool, KIND, 0) }, OK);
    file
}

fn import_pool(rig: &Rig, file: i32) -> Result<CUmemoryPool, CUresult> {
    let mut pool = ptr::null_mut();
    let import = rig.cuda.cuMemPoolImportFromShareableHandle.unwrap();
    match unsafe { import(&mut pool, ptr::without_provenance_mut(file as usize), KIND, 0) } {
        OK => Ok(pool),
        code => Err(code),
    }
}

/// The pool of the one as the other has it.
fn pass_pool(from: &Rig, pool: CUmemoryPool, to: &Rig) -> CUmemoryPool {
    let file = export_pool(from, pool);
    let imported = import_pool(to, file).unwrap();
    drop(unsafe { OwnedFd::from_raw_fd(file) });
    imported
}

fn export_pointer(rig: &Rig, pointer: u64) -> CUmemPoolPtrExportData_v1 {
    let mut data = CUmemPoolPtrExportData_v1 { reserved: [0; 64] };
    assert_eq!(unsafe { (rig.cuda.cuMemPoolExportPointer.unwrap())(&mut data, pointer) }, OK);
    data
}

fn import_pointer(rig: &Rig, pool: CUmemoryPool, mut data: CUmemPoolPtrExportData_v1) -> Result<u64, CUresult> {
    let mut pointer = 0;
    match unsafe { (rig.cuda.cuMemPoolImportPointer.unwrap())(&mut pointer, pool, &mut data) } {
        OK => Ok(pointer),
        code => Err(code),
    }
}

fn export_event(rig: &Rig, event: CUevent) -> CUipcEventHandle_v1 {
    let mut handle = CUipcEventHandle_v1 { reserved: [0; 64] };
    assert_eq!(unsafe { (rig.cuda.cuIpcGetEventHandle.unwrap())(&mut handle, event) }, OK);
    handle
}

fn open_event(rig: &Rig, handle: CUipcEventHandle_v1) -> Result<CUevent, CUresult> {
    let mut event = ptr::null_mut();
    match unsafe { (rig.cuda.cuIpcOpenEventHandle.unwrap())(&mut event, handle) } {
        OK => Ok(event),
        code => Err(code),
    }
}

#[test]
fn bytes_that_one_writes_the_other_reads() {
    let (ours, theirs) = (rig(), rig());
    let pool = shareable(&ours);
    let imported = pass_pool(&ours, pool, &theirs);
    let (our_stream, their_stream) = (ours.stream(), theirs.stream());
    let pointer = ours.alloc(100_000, pool, our_stream).unwrap();
    let second = ours.alloc(8, pool, our_stream).unwrap();
    assert_eq!(ours.fill(pointer, 5, 100_000, our_stream), OK);
    assert_eq!(ours.upload(second, &[1, 2, 3, 4, 5, 6, 7, 8], our_stream), OK);
    assert_eq!(ours.sync(our_stream), OK);
    let alias = import_pointer(&theirs, imported, export_pointer(&ours, pointer)).unwrap();
    let second_alias = import_pointer(&theirs, imported, export_pointer(&ours, second)).unwrap();
    assert_eq!(theirs.download(alias, 100_000, their_stream), [5; 100_000]);
    assert_eq!(theirs.download(second_alias, 8, their_stream), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(theirs.fill(alias + 4, 9, 4, their_stream), OK);
    assert_eq!(theirs.sync(their_stream), OK);
    assert_eq!(ours.download(pointer, 9, our_stream), [5, 5, 5, 5, 9, 9, 9, 9, 5]);
    // To release an import does nothing to what it names.
    assert_eq!(theirs.free(alias, their_stream), OK);
    assert_eq!(theirs.sync(their_stream), OK);
    assert_eq!(ours.download(pointer, 4, our_stream), [5; 4]);
    // What the exporter frees is poisoned for all.
    assert_eq!(ours.free(second, our_stream), OK);
    assert_eq!(ours.sync(our_stream), OK);
    assert_eq!(theirs.download(second_alias, 8, their_stream), [0xa5; 8]);
    assert!(ours.misuses().is_empty() && theirs.misuses().is_empty());
}

#[test]
fn memory_outlives_the_driver_that_made_it() {
    let theirs = rig();
    let their_stream = theirs.stream();
    let (imported, alias) = {
        let ours = rig();
        let (pool, stream) = (shareable(&ours), ours.stream());
        let pointer = ours.alloc(8, pool, stream).unwrap();
        assert_eq!(ours.fill(pointer, 7, 8, stream), OK);
        assert_eq!(ours.sync(stream), OK);
        let imported = pass_pool(&ours, pool, &theirs);
        (imported, import_pointer(&theirs, imported, export_pointer(&ours, pointer)).unwrap())
    };
    assert_eq!(theirs.download(alias, 8, their_stream), [7; 8]);
    assert_eq!(theirs.free(alias, their_stream), OK);
    assert_eq!(theirs.sync(their_stream), OK);
    assert_eq!(unsafe { (theirs.cuda.cuMemPoolDestroy)(imported) }, OK);
    assert_eq!(theirs.sim.live().pools, 0);
}

#[test]
fn pointers_of_another_pool_or_beyond_it_are_refused() {
    let (ours, theirs) = (rig(), rig());
    let (pool, another) = (shareable(&ours), shareable(&ours));
    let imported = pass_pool(&ours, another, &theirs);
    let stream = ours.stream();
    // None of its pointers is exported before the pool is.
    let unexported = ours.alloc(8, pool, stream).unwrap();
    let mut data = CUmemPoolPtrExportData_v1 { reserved: [0; 64] };
    assert_eq!(unsafe { (ours.cuda.cuMemPoolExportPointer.unwrap())(&mut data, unexported) }, INVALID);
    drop(unsafe { OwnedFd::from_raw_fd(export_pool(&ours, pool)) });
    let data = export_pointer(&ours, ours.alloc(8, pool, stream).unwrap());
    assert_eq!(import_pointer(&theirs, imported, data), Err(INVALID));
    let mut beyond = export_pointer(&ours, ours.alloc(8, another, stream).unwrap());
    beyond.reserved[32..40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    assert_eq!(import_pointer(&theirs, imported, beyond), Err(INVALID));
    assert_eq!(import_pool(&theirs, -1), Err(INVALID));
}

#[test]
fn a_stream_waits_for_a_record_that_another_driver_makes() {
    for seed in 0..8 {
        let (ours, theirs) = (Rig::with(Simulator::builder().seed(seed)), Rig::with(Simulator::builder().seed(seed)));
        let pool = shareable(&ours);
        let imported = pass_pool(&ours, pool, &theirs);
        let (our_stream, their_stream) = (ours.stream(), theirs.stream());
        let pointer = ours.alloc(8, pool, our_stream).unwrap();
        let event = ours.event(SHARED_EVENT);
        let opened = open_event(&theirs, export_event(&ours, event)).unwrap();
        // Nothing has been recorded, so nothing is waited for.
        assert_eq!(theirs.wait(their_stream, opened), OK);
        assert_eq!(theirs.sync(their_stream), OK);
        assert_eq!(ours.fill(pointer, 7, 8, our_stream), OK);
        assert_eq!(ours.record(event, our_stream), OK);
        let alias = import_pointer(&theirs, imported, export_pointer(&ours, pointer)).unwrap();
        assert_eq!(theirs.wait(their_stream, opened), OK);
        assert_eq!(theirs.download(alias, 8, their_stream), [7; 8]);
        // And back, on the same event.
        assert_eq!(theirs.fill(alias, 8, 8, their_stream), OK);
        assert_eq!(theirs.free(alias, their_stream), OK);
        assert_eq!(theirs.record(opened, their_stream), OK);
        assert_eq!(ours.wait(our_stream, event), OK);
        assert_eq!(ours.download(pointer, 8, our_stream), [8; 8]);
        assert_eq!(unsafe { (ours.cuda.cuEventSynchronize)(event) }, OK);
        assert_eq!(unsafe { (ours.cuda.cuEventQuery)(event) }, OK);
        assert!(ours.misuses().is_empty() && theirs.misuses().is_empty());
    }
}

#[test]
fn what_waits_for_another_driver_does_not_hold_up_what_does_not() {
    let (ours, theirs) = (rig(), rig());
    let event = ours.event(SHARED_EVENT);
    let opened = open_event(&theirs, export_event(&ours, event)).unwrap();
    let (our_stream, their_stream, free_stream) = (ours.stream(), theirs.stream(), theirs.stream());
    // Their stream waits for ours, which waits for theirs, recorded before: no circle.
    let back = theirs.event(SHARED_EVENT);
    assert_eq!(theirs.record(back, their_stream), OK);
    let back_opened = open_event(&ours, export_event(&theirs, back)).unwrap();
    assert_eq!(ours.wait(our_stream, back_opened), OK);
    assert_eq!(ours.record(event, our_stream), OK);
    assert_eq!(theirs.wait(their_stream, opened), OK);
    assert_eq!(theirs.sync(free_stream), OK);
    assert_eq!(theirs.sync(their_stream), OK);
    assert_eq!(ours.sync(our_stream), OK);
}

#[test]
fn events_that_were_not_made_for_it_are_not_exported_and_own_ones_not_opened() {
    let (ours, theirs) = (rig(), rig());
    let mut handle = CUipcEventHandle_v1 { reserved: [0; 64] };
    let export = ours.cuda.cuIpcGetEventHandle.unwrap();
    assert_eq!(unsafe { export(&mut handle, ours.event(2)) }, INVALID);
    let event = ours.event(SHARED_EVENT);
    let handle = export_event(&ours, event);
    assert_eq!(open_event(&ours, handle), Err(CUresult::CUDA_ERROR_INVALID_CONTEXT));
    let opened = open_event(&theirs, handle).unwrap();
    let mut again = handle;
    assert_eq!(unsafe { (theirs.cuda.cuIpcGetEventHandle.unwrap())(&mut again, opened) }, INVALID);
    assert_eq!(open_event(&theirs, CUipcEventHandle_v1 { reserved: [1; 64] }), Err(INVALID));
    assert_eq!(unsafe { (ours.cuda.cuEventDestroy)(event) }, OK);
    // Nothing is behind the handle any more, or something else.
    assert_eq!(open_event(&theirs, handle), Err(INVALID));
    assert_eq!(unsafe { (theirs.cuda.cuEventDestroy)(opened) }, OK);
}
