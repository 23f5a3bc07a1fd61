//! Captures, graphs and their memory.

use cupool::{Buffer, CaptureMode, Graph, InstantiateOptions};

use super::*;

pub(super) fn graphs(table: &mut Table<'_>) {
    let fixture = table.fixture;
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    table.row("Stream::capture_status", &[cuStreamGetCaptureInfo], || stream.capture_status().unwrap());
    table.row("Stream::capture_id", &[cuStreamGetCaptureInfo], || stream.capture_id().unwrap());
    let create = [cuCtxPushCurrent, cuStreamCreateWithPriority, cuCtxPopCurrent];
    let capture = [&create[..], &[cuStreamBeginCapture, cuStreamEndCapture, cuStreamDestroy]].concat();
    let (mut graph, ()) = table.row("Graph::capture", &capture, || Graph::capture(&context, |_| Ok(())).unwrap());
    let with = || Graph::capture_with(&context, CaptureMode::Global, |_| Ok(())).unwrap();
    drop(table.row("Graph::capture_with", &capture, with));
    in_a_capture(table);
    none! { table:
        "Graph::as_raw" => graph.as_raw();
        "Graph::context" => graph.context().as_raw();
        "Graph::driver" => graph.driver();
        "Context::trim_graph_owners" => context.trim_graph_owners().unwrap();
    }
    let instantiate =
        [cuCtxPushCurrent, cuEventCreate, EXCHANGE, cuGraphInstantiateWithFlags, EXCHANGE, cuCtxPopCurrent];
    let ready = |graph: &Graph| graph.instantiate(InstantiateOptions::default()).unwrap();
    let mut exec = table.row("Graph::instantiate", &instantiate, || ready(&graph));
    // SAFETY: the graph does nothing.
    let launch = || unsafe { exec.launch(&stream) }.unwrap();
    table.row("GraphExec::launch", &[cuStreamIsCapturing, cuGraphLaunch, cuEventRecord], launch);
    table.row("GraphExec::query", &[EXCHANGE, cuEventQuery, EXCHANGE], || exec.query().unwrap());
    table.row("GraphExec::synchronize", &[EXCHANGE, cuEventSynchronize, EXCHANGE], || exec.synchronize().unwrap());
    none! { table:
        "GraphExec::as_raw" => exec.as_raw();
        "GraphExec::context" => exec.context().as_raw();
        "GraphExec::driver" => exec.driver();
    }
    let never = ready(&graph);
    let end = [EXCHANGE, cuGraphExecDestroy, EXCHANGE];
    table.row("drop of GraphExec", &[&end[..], &[cuEventDestroy]].concat(), || drop(never));
    table.row("drop of GraphExec (launched)", &end, || drop(exec));
    let destroy = [EXCHANGE, cuGraphDestroy, EXCHANGE];
    let ask = [EXCHANGE, cuEventQuery, EXCHANGE];
    let last = [&destroy[..], &ask, &[cuEventDestroy]].concat();
    table.row("drop of Graph (the last, and it was launched)", &last, || drop(graph));
    graph = Graph::capture(&context, |_| Ok(())).unwrap().0;
    table.row("drop of Graph", &destroy, || drop(graph));

    let kept: Buffer<u8> = pool.alloc(10, Arc::clone(&stream)).unwrap();
    let keeping = |keep: Option<Buffer<u8>>| {
        let keeps = |capture: &cupool::Capture<'_>| match keep {
            Some(buffer) => capture.keep_buffer(buffer),
            None => {
                capture.keep(1);
                Ok(())
            }
        };
        let (graph, ()) = Graph::capture(&context, keeps).unwrap();
        // More work than it takes to ask for it.
        let mut busy = pool.alloc_zeroed::<u8, _>(10, &*stream).unwrap();
        (0..20).for_each(|value| busy.fill(value).unwrap());
        // SAFETY: the graph does nothing.
        unsafe { ready(&graph).launch(&stream) }.unwrap();
        graph
    };
    let graph = keeping(Some(kept));
    let free = [&destroy[..], &ask, &[cuStreamWaitEvent, cuMemFreeAsync, cuEventDestroy]].concat();
    table.row("drop of Graph (the last, and it keeps a buffer)", &free, || drop(graph));
    let graph = keeping(None);
    let park = [&destroy[..], &ask].concat();
    table.row("drop of Graph (the last, and it keeps something)", &park, || drop(graph));
    let trim = [EXCHANGE, cuEventSynchronize, EXCHANGE, cuEventDestroy];
    let operation = "Context::trim_graph_owners (a launch is under way)";
    table.row(operation, &trim, || context.trim_graph_owners().unwrap());
    let raw = core::ptr::null_mut();
    // SAFETY: no graph at all is nothing to own.
    drop(table.row("Graph::from_raw", &[], || unsafe { Graph::from_raw(&context, raw) }.unwrap()));
}

fn in_a_capture(table: &mut Table<'_>) {
    let fixture = table.fixture;
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let mut buffer = pool.alloc_zeroed::<u32, _>(64, &*stream).unwrap();
    let kept: Buffer<u8> = pool.alloc(10, Arc::clone(&stream)).unwrap();
    let captured = Graph::capture(&context, |capture| {
        none! { table:
            "Capture::stream" => capture.stream().as_raw();
            "Capture::slice" => capture.slice(buffer.as_slice()).unwrap().len();
            "Capture::slice_mut" => capture.slice_mut(buffer.as_mut_slice()).unwrap().len();
            "Capture::keep_buffer" => capture.keep_buffer(kept).unwrap();
            "Capture::keep" => capture.keep(1);
        }
        let alloc = || capture.alloc::<u32>(&pool, 64).unwrap();
        let mut own = table.row("Capture::alloc", &[cuMemAllocFromPoolAsync], alloc);
        none! { table:
            "GraphBuffer::len" => own.len();
            "GraphBuffer::is_empty" => own.is_empty();
            "GraphBuffer::as_raw" => own.as_raw();
            "GraphBuffer::as_slice" => own.as_slice().len();
            "GraphBuffer::as_mut_slice" => own.as_mut_slice().len();
        }
        table.row("GraphBuffer::free", &[cuMemFreeAsync], || own.free().unwrap());
        let other = alloc();
        table.row("GraphBuffer::into_raw_parts", &[], || other.into_raw_parts());
        let beside = [cuStreamIsCapturing, EXCHANGE, cuMemAllocFromPoolAsync, EXCHANGE];
        drop(table.row("MemPool::alloc (beside a capture)", &beside, || pool.alloc::<u8, _>(9, &*stream).unwrap()));
        Ok(())
    });
    drop(captured.unwrap());
    let mode = cupool::cuda_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let (functions, mut graph) = (fixture.driver().functions(), core::ptr::null_mut());
    // SAFETY: the stream is live, the capture lasts as long as its memory is used, and the graph is destroyed once.
    unsafe {
        functions.cuStreamBeginCapture.unwrap()(stream.as_raw(), mode);
        let asked = [cuStreamIsCapturing, cuMemAllocFromPoolAsync];
        let own = table.row("MemPool::alloc_captured", &asked, || pool.alloc_captured::<u8>(9, &stream).unwrap());
        own.free().unwrap();
        functions.cuStreamEndCapture.unwrap()(stream.as_raw(), &raw mut graph);
        functions.cuGraphDestroy.unwrap()(graph);
    }
}
