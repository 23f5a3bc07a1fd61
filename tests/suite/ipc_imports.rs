//! How imports of one buffer live beside each other, and end.
#![cfg(unix)]

use std::{sync::Arc, thread};

use cupool::{
    Error, Stream,
    cuda_sys::CUstreamCaptureMode,
    ipc::{ImportedBuffer, ImportedPool},
    recent_release_failures, release_failures,
};
use cupool_sim::{CUresult, Misuse, Simulator, Symbol};

use crate::{
    fixture::Fixture,
    gate::Gate,
    ipc::{LEN, expect_no_imports, exportable, exported, import, import_own},
};

#[test]
fn an_import_meets_buffers_of_other_streams_in_order() {
    let fixture = Fixture::new();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 3);
    let view = import(&imported, &pointer, &other);
    let mut copy = pool.alloc::<u32, _>(LEN, &stream).unwrap();
    copy.copy_from(view.as_slice()).unwrap();
    drop(view);
    other.synchronize().unwrap();
    assert_eq!(copy.to_vec().unwrap(), [3; LEN]);
    drop(buffer);
}

#[test]
fn i14_the_book_of_imports_is_empty_again_after_the_last() {
    let fixture = Fixture::new();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let buffers: Vec<_> = (0..20).map(|value| exported(&pool, &stream, value)).collect();
    let views: Vec<_> = buffers
        .iter()
        .flat_map(|(_, pointer)| [import(&imported, pointer, &stream), import(&imported, pointer, &other)])
        .collect();
    assert_eq!(imported.imports(), Ok(20));
    for (at, view) in views.iter().enumerate() {
        assert_eq!(view.slice(..1).unwrap().to_vec().unwrap(), [at as u32 / 2]);
    }
    drop(views);
    stream.synchronize().unwrap();
    other.synchronize().unwrap();
    expect_no_imports(&imported);
    drop(buffers);
}

#[test]
fn two_imports_of_one_buffer_share_a_mapping_which_ends_with_the_last() {
    let fixture = Fixture::new();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 9);
    // The driver describes one buffer differently each time.
    let again = buffer.export().unwrap();
    for turn in 0..2 {
        let (first, second) = (import(&imported, &pointer, &stream), import(&imported, &again, &other));
        assert_eq!(first.as_raw(), second.as_raw());
        let (first, second) = if turn == 0 { (first, second) } else { (second, first) };
        drop(first);
        // The driver would have taken the second address away with the first.
        assert_eq!(second.to_vec().unwrap(), [9; LEN]);
        drop(second);
        stream.synchronize().unwrap();
        other.synchronize().unwrap();
        expect_no_imports(&imported);
    }
    drop(buffer);
}

#[test]
fn the_last_import_is_released_after_what_the_others_were_used_for() {
    let fixture = Fixture::alone();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 4);
    let mut copy = pool.alloc::<u32, _>(LEN, &other).unwrap();
    let (late, soon) = (import(&imported, &pointer, &other), import(&imported, &pointer, &stream));
    let gate = Gate::on(&fixture, &other);
    copy.copy_from(late.as_slice()).unwrap();
    drop(late);
    drop(soon);
    fixture.assert_pending(&stream);
    gate.open();
    assert_eq!(copy.to_vec().unwrap(), [4; LEN]);
    stream.synchronize().unwrap();
    expect_no_imports(&imported);
    drop(buffer);
}

#[test]
fn without_its_fences_the_release_of_the_last_import_would_be_found() {
    let fixture = Fixture::unchecked();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 4);
    let mut copy = pool.alloc::<u32, _>(LEN, &other).unwrap();
    let (late, soon) = (import(&imported, &pointer, &other), import(&imported, &pointer, &stream));
    copy.copy_from(late.as_slice()).unwrap();
    fixture.sim().ignore_every(Symbol::cuStreamWaitEvent);
    drop(late);
    drop(soon);
    fixture.sim().clear_faults();
    stream.synchronize().unwrap();
    other.synchronize().unwrap();
    // The free has gone first.
    assert!(fixture.sim().findings().iter().any(|finding| finding.misuse == Misuse::UseAfterFree));
    drop(buffer);
}

#[test]
fn a_buffer_is_not_imported_anew_before_the_device_has_released_it() {
    let fixture = Fixture::simulated();
    let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 4);
    let mut copy = pool.alloc::<u32, _>(LEN, &stream).unwrap();
    let view = import(&imported, &pointer, &stream);
    copy.copy_from(view.as_slice()).unwrap();
    drop(view);
    assert!(fixture.sim().live().pending_operations > 0);
    let before = fixture.sim().calls().len();
    let again = import(&imported, &pointer, &other);
    let calls = fixture.sim().calls().split_off(before);
    let waited = calls.iter().position(|call| *call == Symbol::cuStreamSynchronize).unwrap();
    let mapped = calls.iter().position(|call| *call == Symbol::cuMemPoolImportPointer).unwrap();
    assert!(waited < mapped, "{calls:?}");
    assert_eq!(fixture.sim().live().pending_operations, 0);
    drop(again);
    other.synchronize().unwrap();
    drop(buffer);
}

#[test]
fn i16_threads_import_and_release_one_buffer_at_once() {
    let fixture = Fixture::new();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 6);
    let (imported_again, pointer_again) = (&imported, &pointer);
    let context = fixture.context();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let stream = Stream::new(&context).unwrap();
                for turn in 0..50 {
                    let view = import(imported_again, pointer_again, &stream);
                    assert_eq!(view.slice(turn..turn + 1).unwrap().to_vec().unwrap(), [6]);
                }
                stream.synchronize().unwrap();
            });
        }
    });
    expect_no_imports(&imported);
    drop(buffer);
}

#[test]
fn a_pool_and_its_stream_stay_for_the_buffers_that_outlive_it() {
    let fixture = Fixture::new();
    let (pool, stream) = (exportable(&fixture), fixture.shared_stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 2);
    // SAFETY: the stream has been waited for, and the buffer is freed on the same stream.
    let view: ImportedBuffer<u32> = unsafe { imported.import(&pointer, Arc::clone(&stream)) }.unwrap();
    drop(imported);
    assert_eq!(view.to_vec().unwrap(), [2; LEN]);
    drop(view);
    stream.synchronize().unwrap();
    drop(buffer);
}

/// Driver 580.159 does not survive the destruction of a pool while frees from it are to come.
#[test]
fn f18_an_imported_pool_is_destroyed_when_the_device_has_released_what_was_imported() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), exportable(&fixture), fixture.stream());
    let (buffer, pointer) = exported(&pool, &stream, 2);
    let imported = ImportedPool::from_fd(&context, pool.export_fd().unwrap()).unwrap();
    let view = import(&imported, &pointer, &stream);
    // The simulated driver does nothing before it is asked, and then one thing.
    let gate = fixture.simulator().is_none().then(|| Gate::on(&fixture, &stream));
    drop(view);
    drop(imported);
    let destroyed = || fixture.simulator().map(|simulator| simulator.count(Symbol::cuMemPoolDestroy));
    assert_ne!(destroyed(), Some(1));
    drop(gate);
    assert_eq!(context.drop_retired(), Ok(1));
    assert_ne!(destroyed(), Some(0));
    drop(buffer);
}

#[test]
fn f18_an_import_that_is_never_released_keeps_its_pool() {
    let fixture = Fixture::unchecked();
    let (context, pool, stream) = (fixture.context(), exportable(&fixture), fixture.stream());
    let imported = ImportedPool::from_fd(&context, pool.export_fd().unwrap()).unwrap();
    let (buffer, pointer) = exported(&pool, &stream, 2);
    let view = import(&imported, &pointer, &stream);
    fixture.sim().fail(Symbol::cuMemFreeAsync, 0, CUresult::CUDA_ERROR_UNKNOWN);
    assert!(view.free().is_err());
    drop(imported);
    assert_eq!((context.drop_retired(), fixture.sim().count(Symbol::cuMemPoolDestroy)), (Ok(0), 0));
    fixture.assert_no_findings();
    drop(buffer);
}

#[test]
fn f18_an_imported_pool_ends_with_its_context_at_the_latest() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let (buffer, pointer) = exported(&pool, &stream, 2);
    // The only owner of a context of its own.
    let imported = import_own(&fixture, &pool);
    drop(import(&imported, &pointer, &stream));
    assert!(fixture.sim().live().pending_operations > 0);
    drop(imported);
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolDestroy), 1);
    fixture.assert_no_findings();
    drop(buffer);
}

#[test]
fn a_forgotten_import_stays_and_is_never_released_early() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 2);
    core::mem::forget(import(&imported, &pointer, &stream));
    let second = import(&imported, &pointer, &stream);
    drop(imported);
    assert_eq!(second.to_vec().unwrap(), [2; LEN]);
    drop(second);
    stream.synchronize().unwrap();
    // The buffer and the import.
    assert_eq!(fixture.sim().live().allocations, 2);
    fixture.assert_no_findings();
    drop(buffer);
}

#[test]
fn an_import_dropped_while_its_stream_is_captured_is_given_up_and_told() {
    let fixture = Fixture::unchecked();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 2);
    let view = import(&imported, &pointer, &stream);
    let functions = fixture.driver().functions();
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live, and the graph is taken out below.
    unsafe {
        (functions.cuStreamBeginCapture.unwrap())(
            stream.as_raw(),
            CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        )
    };
    let failures = release_failures();
    drop(view);
    assert!(release_failures() > failures);
    assert!(recent_release_failures().contains(&Error::StreamCapturing));
    // SAFETY: as above; the capture has not been spoilt.
    unsafe {
        let ended = (functions.cuStreamEndCapture.unwrap())(stream.as_raw(), &raw mut graph);
        assert_eq!(ended, CUresult::CUDA_SUCCESS);
        (functions.cuGraphDestroy.unwrap())(graph);
    }
    // SAFETY: if it were imported, it would be released at once.
    let again = unsafe { imported.import::<u32, _>(&pointer, &stream) };
    assert_eq!(again.map(drop), Err(Error::ImportLost));
    fixture.assert_no_findings();
    drop(buffer);
}

#[test]
fn i11_freeing_the_buffer_before_its_import_is_found_by_the_simulated_driver() {
    for waits in [true, false] {
        let fixture = Fixture::unchecked();
        let (pool, stream, other) = (exportable(&fixture), fixture.stream(), fixture.stream());
        let imported = import_own(&fixture, &pool);
        let (buffer, pointer) = exported(&pool, &stream, 5);
        let mut copy = pool.alloc::<u32, _>(LEN, &other).unwrap();
        let view = import(&imported, &pointer, &other);
        copy.copy_from(view.as_slice()).unwrap();
        drop(view);
        if waits {
            stream.wait_for(&other).unwrap();
        }
        // Unless its stream waits, nothing orders the free after the use, nor after the release.
        drop(buffer);
        stream.synchronize().unwrap();
        other.synchronize().unwrap();
        let misuses: Vec<Misuse> = fixture.sim().findings().iter().map(|finding| finding.misuse).collect();
        let expected: &[Misuse] = if waits { &[] } else { &[Misuse::UseAfterFree] };
        assert_eq!(misuses, expected);
        drop(imported);
    }
}

#[test]
fn i11_an_import_that_comes_after_the_free_is_refused() {
    // What a real driver answers is not promised.
    let fixture = Fixture::simulated();
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 5);
    drop(buffer);
    stream.synchronize().unwrap();
    // SAFETY: it is not allocated any more, which is against the rules; it is not used.
    let late = unsafe { imported.import::<u32, _>(&pointer, &stream) };
    assert!(matches!(late, Err(Error::Driver(_))), "{late:?}");
}

#[test]
fn an_import_is_of_its_devices_streams_only() {
    let fixture = Fixture::with(Simulator::builder().devices(2));
    let (pool, stream) = (exportable(&fixture), fixture.stream());
    let imported = import_own(&fixture, &pool);
    let (buffer, pointer) = exported(&pool, &stream, 5);
    let elsewhere = fixture.driver().device(1).unwrap().primary_context().unwrap();
    let far = Stream::new(&elsewhere).unwrap();
    // SAFETY: if it were imported, it would be released at once.
    let refused = unsafe { imported.import::<u32, _>(&pointer, &far) };
    assert_eq!(refused.map(drop), Err(Error::OtherDevice { expected: 1, found: 0 }));
    // The pool is on the other device than was thought.
    let mistaken = ImportedPool::from_fd(&elsewhere, pool.export_fd().unwrap()).unwrap();
    // SAFETY: as above.
    let refused = unsafe { mistaken.import::<u32, _>(&pointer, &far) };
    assert_eq!(refused.map(drop), Err(Error::OtherDevice { expected: 1, found: 0 }));
    far.synchronize().unwrap();
    drop(buffer);
}
