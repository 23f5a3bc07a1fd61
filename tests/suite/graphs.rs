//! Graphs: captured, launched again and again, and gone without a trace.

use core::panic::AssertUnwindSafe;
use std::{
    panic::{catch_unwind, resume_unwind},
    thread,
};

use cupool::{
    Buffer, CaptureMode, CaptureStatus, Error, Event, ForeignBuffer, Graph, InstantiateOptions, LegacyStream,
    ManagedBuffer, MemPool, PinnedBuffer, RelaxedCaptureMode, Result, Stream,
    cuda_sys::{CUgraphMem_attribute, CUresult},
};

use cupool_sim::Symbol;

use crate::fixture::Fixture;

/// What the device's graphs hold: used, and in all.
fn graph_memory(fixture: &Fixture) -> (u64, u64) {
    let get = fixture.driver().functions().cuDeviceGetGraphMemAttribute.unwrap();
    let ask = |attribute| {
        let mut bytes = 0_u64;
        // SAFETY: both attributes are numbers of that size.
        let code = unsafe { get(fixture.device().as_raw(), attribute, (&raw mut bytes).cast()) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        bytes
    };
    (
        ask(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT),
        ask(CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT),
    )
}

/// A graph that adds nothing: it fills memory of its own, and copies that to `target`.
fn filling(fixture: &Fixture, pool: &MemPool, target: &mut Buffer<u32, &Stream>, value: u32) -> Graph {
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        let mut scratch = capture.alloc::<u32>(pool, target.len())?;
        scratch.as_mut_slice().fill(value)?;
        capture.slice_mut(target.as_mut_slice())?.copy_from(scratch.as_slice())?;
        scratch.free()
    })
    .unwrap();
    graph
}

#[test]
fn g4_a_graph_that_allocates_and_frees_is_launched_a_thousand_times_in_the_same_memory() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &stream).unwrap();
    let graph = filling(&fixture, &pool, &mut target, 7);
    // Nothing has run.
    assert_eq!(target.to_vec().unwrap(), [0; 1000]);
    let mut exec = graph.instantiate(InstantiateOptions::default()).unwrap();
    let mut held = None;
    for launch in 0..1000 {
        // SAFETY: the target is at home on this stream, and outlives the launches.
        unsafe { exec.launch(&stream) }.unwrap();
        if launch % 100 == 0 {
            assert_eq!(target.to_vec().unwrap(), [7; 1000]);
            target.fill(launch).unwrap();
            let now = (graph_memory(&fixture), pool.usage().unwrap().used);
            assert_eq!(*held.get_or_insert(now), now, "launch {launch}");
        }
    }
    assert_eq!(target.to_vec().unwrap(), [7; 1000]);
}

#[test]
fn g4_what_a_capture_leaves_unfreed_the_graph_frees_at_its_end() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        let mut dropped = capture.alloc::<u32>(&pool, 100)?;
        dropped.as_mut_slice().fill(1)?;
        drop(dropped);
        let _unused = capture.alloc::<u32>(&pool, 100)?;
        Ok(())
    })
    .unwrap();
    // Without the option a second launch would be refused if anything were left.
    let options = InstantiateOptions { auto_free_on_launch: false, ..Default::default() };
    let mut exec = graph.instantiate(options).unwrap();
    for _ in 0..3 {
        // SAFETY: the graph uses no memory but its own.
        unsafe { exec.launch(&stream) }.unwrap();
    }
    exec.synchronize().unwrap();
}

#[test]
fn g4_memory_that_could_not_be_freed_where_it_was_asked_for_is_freed_at_the_end() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let (graph, freed) = Graph::capture(&fixture.context(), |capture| {
        let memory = capture.alloc::<u32>(&pool, 100)?;
        fixture.sim().fail(Symbol::cuMemFreeAsync, 0, CUresult::CUDA_ERROR_UNKNOWN);
        Ok(memory.free())
    })
    .unwrap();
    assert_eq!(freed.unwrap_err().code(), Some(CUresult::CUDA_ERROR_UNKNOWN));
    let mut exec = graph.instantiate(Default::default()).unwrap();
    for _ in 0..2 {
        // SAFETY: the graph uses no memory but its own.
        unsafe { exec.launch(&stream) }.unwrap();
    }
    exec.synchronize().unwrap();
}

#[test]
fn g4_memory_that_is_given_out_is_there_after_a_launch_and_freed_by_the_next() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let (graph, (address, len)) = Graph::capture(&fixture.context(), |capture| {
        let mut output = capture.alloc::<u32>(&pool, 100)?;
        output.as_mut_slice().fill(5)?;
        Ok(output.into_raw_parts())
    })
    .unwrap();
    assert!(address != 0 && len == 100);
    let kept = InstantiateOptions { auto_free_on_launch: false, ..Default::default() };
    let mut exec = graph.instantiate(kept).unwrap();
    // SAFETY: the graph uses no memory but its own.
    unsafe { exec.launch(&stream) }.unwrap();
    // SAFETY: as above.
    let refused = unsafe { exec.launch(&stream) }.unwrap_err();
    assert_eq!(refused.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
    // SAFETY: the launch allocated it on this stream, and nobody else frees it.
    let output = unsafe { Buffer::<u32, _>::from_raw_parts(address, len, &stream) };
    assert_eq!(output.to_vec().unwrap(), [5; 100]);
    drop(output);
    drop(exec);
    let mut exec = graph.instantiate(InstantiateOptions::default()).unwrap();
    for _ in 0..3 {
        // SAFETY: as above.
        unsafe { exec.launch(&stream) }.unwrap();
    }
    // SAFETY: as above.
    let output = unsafe { Buffer::<u32, _>::from_raw_parts(address, len, &stream) };
    assert_eq!(output.to_vec().unwrap(), [5; 100]);
}

#[test]
fn launches_come_after_each_other_on_whatever_stream() {
    let fixture = Fixture::alone();
    let (pool, one, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut source = pool.alloc_zeroed::<u32, _>(1000, &one).unwrap();
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &one).unwrap();
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        let mut source = capture.slice_mut(source.as_mut_slice())?;
        source.fill(4)?;
        capture.slice_mut(target.as_mut_slice())?.copy_from(source.as_slice())
    })
    .unwrap();
    let mut exec = graph.instantiate(Default::default()).unwrap();
    other.wait_for(&one).unwrap();
    // SAFETY: what came before is done on both streams, the driver puts the launches in order, and what comes after
    // waits for the other stream.
    unsafe {
        exec.launch(&one).unwrap();
        exec.launch(&other).unwrap();
        exec.launch(&one).unwrap();
    }
    one.wait_for(&other).unwrap();
    assert_eq!(target.to_vec().unwrap(), [4; 1000]);
    exec.synchronize().unwrap();
    assert_eq!(exec.query(), Ok(true));
}

/// All that is refused on the stream of a capture.
fn refused_there(
    fixture: &Fixture,
    captured: &Stream,
    pool: &MemPool,
    other: &Stream,
) -> Vec<(&'static str, Result<()>)> {
    let context = fixture.context();
    let event = Event::new(&context).unwrap();
    let mut buffer = pool.alloc_zeroed::<u32, _>(10, other).unwrap();
    let mut answers = vec![
        ("alloc", pool.alloc::<u32, _>(10, captured).map(drop)),
        ("alloc_zeroed", pool.alloc_zeroed::<u32, _>(10, captured).map(drop)),
        ("alloc_from_host", pool.alloc_from_host(&[1_u32; 10], captured).map(drop)),
        ("synchronize", captured.synchronize()),
        ("query", captured.query().map(drop)),
        ("wait", captured.wait(&event)),
        ("wait_for", captured.wait_for(other)),
        ("wait_for the other way", other.wait_for(captured)),
        ("record", event.record(captured)),
        ("call_host", captured.call_host(|| {})),
        ("on", buffer.on(captured).map(drop)),
        ("read_on", buffer.read_on(captured).map(drop)),
        ("trim_after", pool.trim_after(captured, 0).map(drop)),
        ("prime", pool.prime(1 << 20, captured).map(drop)),
        ("from_current_pool", Buffer::<u32, _>::from_current_pool(10, captured).map(drop)),
        ("a managed buffer", ManagedBuffer::<u32, _>::alloc(10, captured).map(drop)),
        ("wait_for_default", captured.wait_for_default(&LegacyStream::new(&context).unwrap())),
        ("wait_for of a default stream", LegacyStream::new(&context).unwrap().wait_for(captured)),
        // SAFETY: it is refused.
        ("foreign memory", unsafe {
            ForeignBuffer::<u32, _, _>::new(buffer.as_raw(), 10, captured, ()).map(drop).map_err(|(error, ())| error)
        }),
        // SAFETY: it is refused.
        ("alloc_captured", unsafe { pool.alloc_captured::<u32>(10, captured) }.map(drop)),
    ];
    answers.push(("move_to", buffer.move_to(captured).map(drop).map_err(|(error, _)| error)));
    answers
}

#[test]
fn g1_g9_what_cannot_be_captured_is_refused_and_the_capture_stays_whole() {
    let fixture = Fixture::alone();
    let (context, pool, other) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(10, &other).unwrap();
    let mut outside = pool.alloc_zeroed::<u32, _>(10, &other).unwrap();
    let mut pinned = PinnedBuffer::<u32>::new(&context, 10).unwrap();
    for mode in [CaptureMode::ThreadLocal, CaptureMode::Global, CaptureMode::Relaxed] {
        let (_, answers) = Graph::capture_with(&context, mode, |capture| {
            let mut view = capture.slice_mut(buffer.as_mut_slice())?;
            view.fill(1)?;
            let mut answers = refused_there(&fixture, view.home(), &pool, &other);
            answers.extend([
                ("copy_from_host", view.copy_from_host(&[2; 10])),
                ("copy_to_host", view.as_slice().copy_to_host(&mut [0; 10])),
                ("copy_from_pinned", view.copy_from_pinned(&pinned)),
                ("copy_to_pinned", view.as_slice().copy_to_pinned(&mut pinned)),
                ("copy from another home", view.copy_from(outside.as_slice())),
                ("copy to another home", outside.copy_from(view.as_slice())),
            ]);
            assert_eq!(capture.stream().capture_status(), Ok(CaptureStatus::Active), "{mode:?}");
            Ok(answers)
        })
        .unwrap();
        for (what, answer) in answers {
            assert_eq!(answer, Err(Error::StreamCapturing), "{what}, {mode:?}");
        }
    }
}

#[test]
fn g12_a_capture_is_ended_by_an_error_and_by_a_panic() {
    let fixture = Fixture::alone();
    let (context, pool) = (fixture.context(), fixture.pool());
    let failed = Graph::capture(&context, |capture| {
        drop(capture.alloc::<u8>(&pool, 100)?);
        Err::<(), _>(Error::NotReady)
    });
    assert_eq!(failed.map(drop), Err(Error::NotReady));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        Graph::capture(&context, |capture| -> Result<()> {
            capture.alloc::<u8>(&pool, 100)?.as_mut_slice().fill(1)?;
            capture.keep_buffer(pool.alloc::<u8, _>(10, fixture.shared_stream())?)?;
            resume_unwind(Box::new("on purpose"))
        })
    }));
    assert!(panicked.is_err());
    // Nothing is captured any more: this would be refused on this thread.
    assert_eq!(pool.usage().unwrap().used, 0);
    context.synchronize().unwrap();
    Graph::capture(&context, |_| Ok(())).unwrap();
}

#[test]
fn g12_captures_inside_each_other_have_nothing_to_do_with_each_other() {
    let fixture = Fixture::alone();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let (mut one, mut other) =
        (pool.alloc_zeroed::<u8, _>(10, &stream).unwrap(), pool.alloc_zeroed::<u8, _>(10, &stream).unwrap());
    let (outer, inner) = Graph::capture(&context, |outer| {
        let mut view = outer.slice_mut(one.as_mut_slice())?;
        let (inner, ids) = Graph::capture(&context, |inner| {
            inner.slice_mut(other.as_mut_slice())?.fill(2)?;
            // What is at home in the one does not come into the other.
            assert_eq!(inner.slice(view.as_slice()).map(drop), Err(Error::StreamCapturing));
            let mut own = inner.alloc::<u8>(&pool, 10)?;
            assert_eq!(view.copy_from(own.as_slice()), Err(Error::StreamCapturing));
            assert_eq!(own.as_mut_slice().copy_from(view.as_slice()), Err(Error::StreamCapturing));
            Ok([outer.stream().capture_id()?, inner.stream().capture_id()?])
        })?;
        assert!(ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1], "{ids:?}");
        view.fill(1)?;
        Ok(inner)
    })
    .unwrap();
    for graph in [outer, inner] {
        // SAFETY: the buffers are at home on this stream, and outlive the launches.
        unsafe { graph.instantiate(Default::default()).unwrap().launch(&stream) }.unwrap();
    }
    assert_eq!((one.to_vec().unwrap(), other.to_vec().unwrap()), (vec![1; 10], vec![2; 10]));
}

#[test]
fn g7_after_a_capture_that_was_spoilt_there_is_no_graph_and_nothing_to_destroy() {
    let fixture = Fixture::alone();
    let (context, pool) = (fixture.context(), fixture.pool());
    let spoilt = Graph::capture(&context, |capture| {
        drop(capture.alloc::<u8>(&pool, 100)?);
        let stream = capture.stream();
        // SAFETY: the stream is live. The wait is what spoils the capture.
        let code = unsafe { (stream.driver().functions().cuStreamSynchronize)(stream.as_raw()) };
        assert_eq!(code, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::Invalidated));
        assert_eq!(stream.capture_id(), Ok(None));
        Ok(())
    });
    let code = spoilt.map(drop).unwrap_err().code();
    assert_eq!(code, Some(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    let (graph, ()) = Graph::capture(&context, |_| Ok(())).unwrap();
    drop(graph.instantiate(Default::default()).unwrap());
}

#[test]
fn g10_failed_captures_leave_no_memory_in_use() {
    let fixture = Fixture::alone();
    let (context, pool) = (fixture.context(), fixture.pool());
    let mut held = None;
    for round in 0..50 {
        let failed = Graph::capture(&context, |capture| {
            let _left = capture.alloc::<u8>(&pool, 1 << 20)?;
            capture.alloc::<u8>(&pool, 1 << 20)?.free()?;
            if round % 2 == 0 { Err(Error::NotReady) } else { capture.alloc::<u8>(&pool, usize::MAX / 2).map(drop) }
        });
        assert!(failed.is_err());
        // Graphs that are gone may have left some.
        let now = graph_memory(&fixture);
        assert_eq!(*held.get_or_insert(now), now, "round {round}");
    }
    assert_eq!(pool.usage().unwrap().used, 0);
}

#[test]
fn g8_streams_pools_and_events_made_beside_a_global_capture_leave_it_whole() {
    let fixture = Fixture::alone();
    let (context, home) = (fixture.context(), fixture.stream());
    let pool = fixture.pool();
    let mut buffer = pool.alloc_zeroed::<u8, _>(100, &home).unwrap();
    let (_, ()) = Graph::capture_with(&context, CaptureMode::Global, |capture| {
        capture.slice_mut(buffer.as_mut_slice())?.fill(1)?;
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let (stream, event) = (fixture.stream(), Event::new(&context).unwrap());
                let own = fixture.pool();
                // Larger than what the pool holds, so that it has to grow.
                let made = own.alloc_from_host(&vec![1_u8; 40 << 20], &stream).unwrap();
                event.record(&stream).unwrap();
                event.synchronize().unwrap();
                drop(made);
                stream.synchronize().unwrap();
                own.trim_to(0).unwrap();
                let (graph, ()) = Graph::capture(&context, |_| Ok(())).unwrap();
                // SAFETY: the graph does nothing.
                unsafe { graph.instantiate(Default::default()).unwrap().launch(&stream) }.unwrap();
            });
            other.join().unwrap();
        });
        assert_eq!(capture.stream().capture_status(), Ok(CaptureStatus::Active));
        Ok(())
    })
    .unwrap();
}

#[test]
fn captured_streams_are_seen_by_nobody_else() {
    let fixture = Fixture::alone();
    let (context, stream) = (fixture.context(), fixture.stream());
    assert_eq!((stream.capture_status(), stream.capture_id()), (Ok(CaptureStatus::None), Ok(None)));
    Graph::capture(&context, |capture| {
        assert!(!capture.stream().is_same(&stream));
        assert_eq!(stream.capture_status(), Ok(CaptureStatus::None));
        // Memory of another stream is allocated and freed beside.
        let pool = fixture.pool();
        let buffer = pool.alloc_from_host(&[3_u8; 10], &stream)?;
        assert_eq!(buffer.to_vec()?, [3; 10]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn memory_of_no_bytes_makes_no_call() {
    let fixture = Fixture::simulated();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let empty = pool.alloc::<u32, _>(0, &stream).unwrap();
    Graph::capture(&context, |capture| {
        fixture.expect_calls(&[], || {
            let mut own = capture.alloc::<u32>(&pool, 0).unwrap();
            own.as_mut_slice().fill(1).unwrap();
            own.as_mut_slice().copy_from(capture.slice(empty.as_slice()).unwrap()).unwrap();
            own.free().unwrap();
            assert_eq!(capture.alloc::<u32>(&pool, 0).unwrap().into_raw_parts(), (0, 0));
        });
        let too_many = capture.alloc::<u32>(&pool, usize::MAX).map(drop);
        assert_eq!(too_many, Err(Error::SizeOverflow { len: usize::MAX, size: 4 }));
        Ok(())
    })
    .unwrap();
}

#[test]
fn somebody_elses_capture_can_have_memory_of_its_own() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let functions = fixture.driver().functions();
    // SAFETY: the stream is not captured, so it is refused.
    let refused = unsafe { pool.alloc_captured::<u8>(10, &stream) };
    assert_eq!(refused.map(drop), Err(Error::NotCapturing));
    let mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let mut raw = core::ptr::null_mut();
    // A wait asks first where captures are expected.
    let _expected = RelaxedCaptureMode::new(fixture.driver());
    // SAFETY: the stream is live, the capture lasts as long as its memory is used, and the graph is owned.
    let graph = unsafe {
        assert_eq!(functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode), CUresult::CUDA_SUCCESS);
        let mut own = pool.alloc_captured::<u32>(10, &stream).unwrap();
        own.as_mut_slice().fill(1).unwrap();
        assert_eq!(stream.synchronize(), Err(Error::StreamCapturing));
        assert_eq!(stream.query(), Err(Error::StreamCapturing));
        own.free().unwrap();
        assert_eq!(functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut raw), CUresult::CUDA_SUCCESS);
        Graph::from_raw(&fixture.context(), raw).unwrap()
    };
    let mut exec = graph.instantiate(Default::default()).unwrap();
    for _ in 0..2 {
        // SAFETY: the graph uses no memory but its own.
        unsafe { exec.launch(&stream) }.unwrap();
    }
}

/// Without the relaxed mode an allocation beside somebody's global capture is refused; with it, it is not.
#[test]
fn g2_allocations_beside_a_foreign_global_capture_leave_it_whole_if_they_are_told() {
    let fixture = Fixture::alone();
    let (pool, stream, captured) = (fixture.pool(), fixture.stream(), fixture.stream());
    let functions = fixture.driver().functions();
    let mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    for told in [true, false] {
        // SAFETY: the stream is live.
        let code = unsafe { functions.cuStreamBeginCapture.unwrap()(captured.as_raw(), mode) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        let beside = told.then(|| RelaxedCaptureMode::new(fixture.driver()));
        let allocate = || drop(pool.alloc::<u8, _>(100, &stream).unwrap());
        thread::scope(|scope| scope.spawn(allocate).join()).unwrap();
        drop(beside);
        let mut graph = core::ptr::null_mut();
        // SAFETY: as above.
        let code = unsafe { functions.cuStreamEndCapture.unwrap()(captured.as_raw(), &raw mut graph) };
        // Whether the refused call has spoilt the capture is the driver's affair; here the allocation came about.
        if told || code == CUresult::CUDA_SUCCESS {
            assert_eq!(code, CUresult::CUDA_SUCCESS);
            // SAFETY: the graph was just made.
            assert_eq!(unsafe { functions.cuGraphDestroy.unwrap()(graph) }, CUresult::CUDA_SUCCESS);
        } else {
            assert!(graph.is_null());
        }
    }
}

#[test]
fn memory_that_was_given_up_or_is_another_drivers_does_not_come_into_a_graph() {
    let (fixture, another) = (Fixture::unchecked(), Fixture::simulated());
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(10, &stream).unwrap();
    core::mem::forget(buffer.on(&other).unwrap());
    let (theirs, their_stream) = (another.pool(), another.shared_stream());
    let foreign: Buffer<u8> = theirs.alloc_zeroed(10, their_stream).unwrap();
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        assert_eq!(capture.slice_mut(buffer.as_mut_slice()).map(drop), Err(Error::LoanForgotten));
        assert_eq!(capture.slice(foreign.as_slice()).map(drop), Err(Error::DriverMismatch));
        assert_eq!(capture.alloc::<u8>(&theirs, 10).map(drop), Err(Error::DriverMismatch));
        assert_eq!(capture.keep_buffer(foreign), Err(Error::DriverMismatch));
        Ok(())
    })
    .unwrap();
    let mut exec = graph.instantiate(InstantiateOptions::default()).unwrap();
    // SAFETY: it is refused.
    assert_eq!(unsafe { exec.launch(&another.stream()) }, Err(Error::DriverMismatch));
}

#[test]
fn a_pool_that_can_be_shared_between_processes_does_not_allocate_in_a_graph() {
    use cupool::cuda_sys::{
        CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPoolProps_v1,
    };
    let fixture = Fixture::alone();
    let context = fixture.context();
    let properties = CUmemPoolProps_v1 {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 },
        win32SecurityAttributes: core::ptr::null_mut(),
        maxSize: 64 << 20,
        usage: 0,
        reserved: [0; 54],
    };
    let mut raw = core::ptr::null_mut();
    // SAFETY: the properties are as the driver has them, and the call writes one handle.
    let code = unsafe { (fixture.driver().functions().cuMemPoolCreate)(&raw mut raw, &raw const properties) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    // SAFETY: the pool was just made.
    let pool = unsafe { MemPool::from_raw(fixture.device(), raw) };
    let refused = Graph::capture(&context, |capture| capture.alloc::<u8>(&pool, 100).map(drop));
    assert_eq!(refused.map(drop).unwrap_err().code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
}

#[test]
fn of_a_graph_with_memory_of_its_own_there_is_one_instance_at_a_time() {
    let fixture = Fixture::alone();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut target = pool.alloc_zeroed::<u32, _>(10, &stream).unwrap();
    let graph = filling(&fixture, &pool, &mut target, 1);
    let first = graph.instantiate(InstantiateOptions::default()).unwrap();
    assert!(graph.instantiate(InstantiateOptions::default()).is_err());
    drop(first);
    // SAFETY: the target is at home on this stream, and outlives the launch.
    unsafe { graph.instantiate(InstantiateOptions::default()).unwrap().launch(&stream) }.unwrap();
    drop(graph);
    // Gone while it runs, and all the same whole.
    assert_eq!(target.to_vec().unwrap(), [1; 10]);
}
