//! What graphs keep: there until the last launch is done, and gone then, without a wait.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cupool::{
    Buffer, Error, Event, Graph, InstantiateOptions, MemPool, Stream, cuda_sys::CUresult, recent_release_failures,
};
use cupool_sim::Symbol;

use crate::{fixture::Fixture, gate::Gate};

#[test]
fn g5_a_buffer_that_a_graph_keeps_is_freed_behind_the_last_launch_without_a_wait() {
    let fixture = Fixture::alone();
    let (pool, home, other) = (fixture.pool(), fixture.shared_stream(), fixture.stream());
    let mut source: Buffer<u32> = pool.alloc(1000, Arc::clone(&home)).unwrap();
    source.fill(3).unwrap();
    let shared = Arc::new(pool.alloc_zeroed::<u32, _>(1000, Arc::clone(&home)).unwrap());
    let mut target = pool.alloc_zeroed::<u32, _>(1000, &other).unwrap();
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        capture.slice_mut(target.as_mut_slice())?.copy_from(capture.slice(source.as_slice())?)?;
        capture.keep_buffer(source)?;
        capture.keep_buffer(Arc::clone(&shared))
    })
    .unwrap();
    let mut exec = graph.instantiate(InstantiateOptions::default()).unwrap();
    drop(graph);
    other.wait_for(&home).unwrap();
    let gate = busy(&fixture, &pool, &other);
    // SAFETY: the source is kept, and what it was filled with comes before; the target is at home here.
    unsafe { exec.launch(&other) }.unwrap();
    assert!(!exec.query().unwrap());
    assert_eq!(Arc::strong_count(&shared), 2);
    // Nothing waits here, or it would wait for ever. The source is freed, and its memory used again at once.
    drop(exec);
    assert_eq!(Arc::strong_count(&shared), 1);
    let mut next = pool.alloc::<u32, _>(1000, &*home).unwrap();
    next.fill(9).unwrap();
    drop(gate);
    assert_eq!(target.to_vec().unwrap(), [3; 1000]);
    assert_eq!(next.to_vec().unwrap(), [9; 1000]);
}

/// Work in front, which nobody has waited for: held up until the gate is dropped or, since the simulated driver does a
/// piece of work whenever it is asked after some, more pieces than it is asked for.
#[must_use]
fn busy(fixture: &Fixture, pool: &MemPool, stream: &Stream) -> Option<Gate> {
    if fixture.simulator().is_none() {
        return Some(Gate::on(fixture, stream));
    }
    let mut buffer = pool.alloc::<u8, _>(10, stream).unwrap();
    for value in 0..20 {
        buffer.fill(value).unwrap();
    }
    None
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn g5_whatever_else_a_graph_keeps_stays_until_its_launches_are_done() {
    let fixture = Fixture::alone();
    let (context, stream, dropped) = (fixture.context(), fixture.stream(), Arc::new(AtomicUsize::new(0)));
    let pool = fixture.pool();
    let make = || {
        Graph::capture(&context, |capture| {
            capture.keep(Counted(Arc::clone(&dropped)));
            Ok(())
        })
        .unwrap()
        .0
    };
    let dropped = || dropped.load(Ordering::Relaxed);
    // Never launched: with the last of them.
    let graph = make();
    let (one, other) = (graph.instantiate(Default::default()).unwrap(), graph.instantiate(Default::default()).unwrap());
    drop(graph);
    drop(one);
    assert_eq!(dropped(), 0);
    drop(other);
    assert_eq!(dropped(), 1);
    // Launched and done: likewise.
    let mut exec = make().instantiate(Default::default()).unwrap();
    // SAFETY: the graph does nothing.
    unsafe { exec.launch(&stream) }.unwrap();
    exec.synchronize().unwrap();
    drop(exec);
    assert_eq!(dropped(), 2);
    // Launched and not done: with the next capture after it is.
    let gate = busy(&fixture, &pool, &stream);
    let mut exec = make().instantiate(Default::default()).unwrap();
    // SAFETY: as above.
    unsafe { exec.launch(&stream) }.unwrap();
    drop(exec);
    assert_eq!(dropped(), 2);
    drop(gate);
    stream.synchronize().unwrap();
    let mut exec = make().instantiate(Default::default()).unwrap();
    assert_eq!(dropped(), 3);
    // Or when it is asked for.
    let gate = busy(&fixture, &pool, &stream);
    // SAFETY: as above.
    unsafe { exec.launch(&stream) }.unwrap();
    drop(exec);
    drop(gate);
    assert_eq!((context.trim_graph_owners().unwrap(), dropped()), (1, 4));
    assert_eq!((context.trim_graph_owners().unwrap(), dropped()), (0, 4));
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    #[expect(clippy::panic, reason = "what the test is about")]
    fn drop(&mut self) {
        panic!("an owner that does not want to go");
    }
}

#[test]
fn g5_an_owner_that_panics_takes_no_other_along() {
    let fixture = Fixture::alone();
    let (context, pool, dropped) = (fixture.context(), fixture.pool(), Arc::new(AtomicUsize::new(0)));
    let (early, late) = (fixture.stream(), fixture.stream());
    let launched = |stream: &Stream, panics: bool| {
        let (graph, ()) = Graph::capture(&context, |capture| {
            if panics {
                capture.keep(Panics);
                capture.keep(Panics);
            }
            capture.keep(Counted(Arc::clone(&dropped)));
            Ok(())
        })
        .unwrap();
        let mut exec = graph.instantiate(Default::default()).unwrap();
        // SAFETY: the graph does nothing.
        unsafe { exec.launch(stream) }.unwrap();
    };
    let dropped = || dropped.load(Ordering::Relaxed);
    let gates = (busy(&fixture, &pool, &early), busy(&fixture, &pool, &late));
    launched(&early, true);
    launched(&late, false);
    drop(gates.0);
    early.synchronize().unwrap();
    // What finds the first to be done drops all of its owners, and not that of a launch that is not.
    Graph::capture(&context, |_| Ok(())).unwrap();
    assert_eq!(dropped(), 1);
    drop(gates.1);
    assert_eq!((context.trim_graph_owners().unwrap(), dropped()), (1, 2));
    // Waited for, and never launched.
    launched(&early, true);
    // (Unless the device was done before.)
    assert!([0, 3].contains(&context.trim_graph_owners().unwrap()));
    assert_eq!(dropped(), 3);
    let record = |capture: &cupool::Capture<'_>| {
        capture.keep(Panics);
        capture.keep(Panics);
        Ok(())
    };
    drop(Graph::capture(&context, record).unwrap());
}

#[test]
fn g5_owners_that_are_still_needed_go_with_the_context_at_last() {
    let fixture = Fixture::alone();
    let dropped = Arc::new(AtomicUsize::new(0));
    let stream = fixture.stream();
    let (graph, ()) = Graph::capture(stream.context(), |capture| {
        capture.keep(Counted(Arc::clone(&dropped)));
        Ok(())
    })
    .unwrap();
    let mut exec = graph.instantiate(Default::default()).unwrap();
    // SAFETY: the graph does nothing.
    unsafe { exec.launch(&stream) }.unwrap();
    drop((graph, exec, stream));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn g5_a_kept_buffer_that_nothing_can_order_behind_the_launches_is_leaked() {
    let fixture = Fixture::unchecked();
    let (pool, home, other) = (fixture.pool(), fixture.shared_stream(), fixture.stream());
    let mut target: Buffer<u32> = pool.alloc_zeroed(1000, Arc::clone(&home)).unwrap();
    let (graph, ()) = Graph::capture(&fixture.context(), |capture| {
        capture.slice_mut(target.as_mut_slice())?.fill(1)?;
        capture.keep_buffer(target)
    })
    .unwrap();
    let mut exec = graph.instantiate(InstantiateOptions::default()).unwrap();
    other.wait_for(&home).unwrap();
    let _ = busy(&fixture, &pool, &other);
    // SAFETY: the target is kept, and what it was used for comes before.
    unsafe { exec.launch(&other) }.unwrap();
    drop(graph);
    for symbol in [Symbol::cuStreamWaitEvent, Symbol::cuEventSynchronize] {
        fixture.sim().fail_every(symbol, CUresult::CUDA_ERROR_UNKNOWN);
    }
    drop(exec);
    fixture.sim().clear_faults();
    fixture.context().synchronize().unwrap();
    assert_eq!(fixture.sim().live().allocations, 1);
    fixture.assert_no_findings();
}

#[test]
fn c2_a_panic_of_an_owner_that_a_graph_kept_is_counted_and_hurries_no_other() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    /// Counts how often it goes before the device has got to its mark.
    struct Needed(Event, Arc<AtomicUsize>);
    impl Drop for Needed {
        fn drop(&mut self) {
            self.1.fetch_add(usize::from(!self.0.query().unwrap()), Ordering::Relaxed);
        }
    }

    for trims in [true, false] {
        let fixture = Fixture::simulated();
        let (context, pool, early) = (fixture.context(), fixture.pool(), Arc::new(AtomicUsize::new(0)));
        let (stream, other) = (fixture.stream(), fixture.stream());
        let mark = Event::new(&context).unwrap();
        for stream in [&stream, &other] {
            let mut buffer = pool.alloc::<u8, _>(10, stream).unwrap();
            (0..50).for_each(|value| buffer.fill(value).unwrap());
        }
        mark.record(&other).unwrap();
        let launched = |stream: &Stream, owners: Vec<Box<dyn Send>>| {
            let (graph, ()) = Graph::capture(&context, |capture| {
                owners.into_iter().for_each(|owner| capture.keep(owner));
                Ok(())
            })
            .unwrap();
            let mut exec = graph.instantiate(Default::default()).unwrap();
            // SAFETY: the graph does nothing.
            unsafe { exec.launch(stream) }.unwrap();
            exec
        };
        let first = launched(&stream, vec![Box::new(Panics), Box::new(Panics)]);
        let second = launched(&other, vec![Box::new(Needed(mark, Arc::clone(&early)))]);
        drop((first, second));
        if trims {
            assert_eq!(context.trim_graph_owners(), Ok(3));
        } else {
            stream.synchronize().unwrap();
            drop(Graph::capture(&context, |_| Ok(())).unwrap());
            context.trim_graph_owners().unwrap();
        }
        assert_eq!(early.load(Ordering::Relaxed), 0);
    }
    let panics = recent_release_failures().iter().filter(|error| **error == Error::OwnerPanicked).count();
    assert!(panics >= 4, "{panics}");
}
