//! Graphs: captured, launched, gone while they may still run.

use std::sync::Arc;

use cupool::{Buffer, CaptureMode, Graph, GraphExec, InstantiateOptions, RelaxedCaptureMode};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: a_graph_with_memory_of_its_own, a_capture_inside_another, a_capture_that_fails, a_graph_launched_on_two_streams,
            a_graph_that_keeps_buffers, a_graph_that_keeps_something, owners_that_are_waited_for, a_stream_is_asked_for_its_capture,
            an_allocation_beside_captures;
    }
}

fn ready(world: &mut World<'_>, graph: &Graph) -> Option<GraphExec> {
    world.get(graph.instantiate(InstantiateOptions::default()))
}

fn a_graph_with_memory_of_its_own(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut target = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let captured = Graph::capture(&base.context, |capture| {
        let mut own = capture.alloc::<u32>(&base.pool, 100)?;
        own.as_mut_slice().fill(1)?;
        capture.slice_mut(target.as_mut_slice())?.copy_from(own.as_slice())?;
        own.free()?;
        // Freed at the end.
        capture.alloc::<u32>(&base.pool, 100)?.as_mut_slice().fill(2)
    });
    let (graph, ()) = world.get(captured)?;
    let mut exec = ready(world, &graph)?;
    for _ in 0..2 {
        // SAFETY: the target is at home on this stream, and outlives the launches.
        world.go_on(unsafe { exec.launch(&base.first) });
    }
    world.go_on(exec.query());
    world.go_on(exec.synchronize());
    world.equal(target.to_vec(), [1; 100]);
    Some(())
}

fn a_capture_inside_another(world: &mut World<'_>, base: Base) -> Option<()> {
    let captured = Graph::capture_with(&base.context, CaptureMode::Global, |_| {
        Graph::capture_with(&base.context, CaptureMode::Relaxed, |_| Ok(())).map(|(inner, ())| inner)
    });
    let (outer, inner) = world.get(captured)?;
    drop(outer);
    drop(ready(world, &inner)?);
    Some(())
}

fn a_capture_that_fails(world: &mut World<'_>, base: Base) -> Option<()> {
    let captured = Graph::capture(&base.context, |capture| {
        capture.alloc::<u32>(&base.pool, 100)?.as_mut_slice().fill(1)?;
        capture.stream().synchronize()
    });
    world.refused(captured);
    world.go_on(base.first.synchronize());
    Some(())
}

fn a_graph_launched_on_two_streams(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut target: Buffer<u32> = world.get(base.pool.alloc_zeroed(100, Arc::clone(&base.first)))?;
    let captured = Graph::capture(&base.context, |capture| {
        capture.slice_mut(target.as_mut_slice())?.fill(3)?;
        capture.keep_buffer(target)
    });
    let (graph, ()) = world.get(captured)?;
    let mut exec = ready(world, &graph)?;
    drop(graph);
    world.get(base.second.wait_for(&base.first))?;
    for stream in [&base.first, &base.second, &base.first] {
        // SAFETY: the target is kept, and both streams come after all that it was used for.
        world.go_on(unsafe { exec.launch(stream) });
    }
    Some(())
}

fn a_graph_that_keeps_buffers(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut kept: Buffer<u32> = world.get(base.pool.alloc(100, Arc::clone(&base.first)))?;
    world.go_on(kept.fill(5));
    let mut target = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.second))?;
    let captured = Graph::capture(&base.context, |capture| {
        capture.slice_mut(target.as_mut_slice())?.copy_from(capture.slice(kept.as_slice())?)?;
        capture.keep_buffer(kept)
    });
    let (graph, ()) = world.get(captured)?;
    let mut exec = ready(world, &graph)?;
    world.get(base.second.wait_for(&base.first))?;
    // SAFETY: the source is kept, and filled before; the target is at home here.
    world.go_on(unsafe { exec.launch(&base.second) });
    drop(exec);
    drop(graph);
    world.equal(target.to_vec(), [5; 100]);
    Some(())
}

/// A graph that keeps a number, and is launched behind more work than it takes to ask for it.
fn kept_under_way(world: &mut World<'_>, base: &Base) -> Option<()> {
    let captured = Graph::capture(&base.context, |capture| {
        capture.keep(1);
        Ok(())
    });
    let (graph, ()) = world.get(captured)?;
    let mut exec = ready(world, &graph)?;
    let mut busy = world.get(base.pool.alloc::<u8, _>(10, &*base.first))?;
    for value in 0..5 {
        world.go_on(busy.fill(value));
    }
    // SAFETY: the graph does nothing.
    world.go_on(unsafe { exec.launch(&base.first) });
    Some(())
}

fn a_graph_that_keeps_something(world: &mut World<'_>, base: Base) -> Option<()> {
    kept_under_way(world, &base)?;
    world.go_on(base.first.synchronize());
    // Here it is dropped.
    world.go_on(Graph::capture(&base.context, |_| Ok(())));
    Some(())
}

fn owners_that_are_waited_for(world: &mut World<'_>, base: Base) -> Option<()> {
    kept_under_way(world, &base)?;
    world.go_on(base.context.trim_graph_owners());
    Some(())
}

fn a_stream_is_asked_for_its_capture(world: &mut World<'_>, base: Base) -> Option<()> {
    world.go_on(base.first.capture_status());
    world.equal(base.first.capture_id(), None);
    Some(())
}

fn an_allocation_beside_captures(world: &mut World<'_>, base: Base) -> Option<()> {
    let _beside = RelaxedCaptureMode::new(base.context.driver());
    let buffer = world.get(base.pool.alloc_zeroed::<u8, _>(10, &*base.first))?;
    world.equal(buffer.to_vec(), [0; 10]);
    Some(())
}
