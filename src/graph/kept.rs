//! What is kept for a graph: until the graph and all that was instantiated from it are gone, and their launches done.
//!
//! A buffer is freed in its home stream's order, so that stream waits for the launches. Of anything else nobody knows how
//! it is released; what is needed by launches that are not done yet is parked with the context, as page-locked memory is.

use core::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_sys::{CUevent, CUgraph, Functions};

use crate::{
    Buffer, Context, Error, Result, Stream, StreamHandle,
    foreign::retired::guarded,
    gate, raw, release,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A buffer that a graph can keep: one that is owned, or shared.
///
/// Sealed: dropping it must free in the order of the stream that it names.
pub trait KeptBuffer: sealed::Sealed + Send + 'static {
    /// The stream in whose order it is freed.
    fn home_stream(&self) -> &Stream;
}

mod sealed {
    pub trait Sealed {}
}

impl<T: Pod + Send, S: StreamHandle + Send + 'static> sealed::Sealed for Buffer<T, S> {}
impl<T: Pod + Send, S: StreamHandle + Send + 'static> KeptBuffer for Buffer<T, S> {
    fn home_stream(&self) -> &Stream {
        self.home()
    }
}

impl<B: KeptBuffer + Sync> sealed::Sealed for Arc<B> {}
impl<B: KeptBuffer + Sync> KeptBuffer for Arc<B> {
    fn home_stream(&self) -> &Stream {
        (**self).home_stream()
    }
}

/// Things of any type, which end one by one: a panic of one is counted, and keeps none of the others from being waited
/// for. In a forked child they are the parent's.
#[derive(Default)]
pub(super) struct Owners(Vec<Box<dyn Send>>);

impl Owners {
    pub(super) fn push(&mut self, owner: impl Send + 'static) {
        self.0.push(Box::new(owner));
    }

    const fn len(&self) -> usize {
        self.0.len()
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        let owners = core::mem::take(&mut self.0);
        if gate::check().is_err() {
            core::mem::forget(owners);
            return;
        }
        for owner in owners {
            guarded(|| drop(owner));
        }
    }
}

/// What a graph was given.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) buffers: Vec<Box<dyn KeptBuffer>>,
    pub(super) owners: Owners,
}

/// A graph that was captured, shared with what was instantiated from it.
pub(super) struct Captured {
    raw: CUgraph,
    kept: Kept,
    outputs: bool,
    /// Marks behind the last launches of what is gone.
    until: Mutex<Vec<CUevent>>,
    never_done: AtomicBool,
    context: Context,
}

// SAFETY: handles may be used from every thread. What is kept is only ever dropped, exclusively; the graph is only
// instantiated by its `Graph`, which is on one thread at a time, and destroyed exclusively.
unsafe impl Send for Captured {}
// SAFETY: as above.
unsafe impl Sync for Captured {}

impl Captured {
    pub(super) const fn new(raw: CUgraph, context: Context, kept: Kept, outputs: bool) -> Self {
        Self { raw, kept, outputs, until: Mutex::new(Vec::new()), never_done: AtomicBool::new(false), context }
    }

    pub(super) const fn raw(&self) -> CUgraph {
        self.raw
    }

    pub(super) const fn context(&self) -> &Context {
        &self.context
    }

    /// Whether launches may leave memory allocated.
    pub(super) const fn has_outputs(&self) -> bool {
        self.outputs
    }

    /// What was instantiated is gone; its last launch may run until the event, which is given away.
    pub(super) fn runs_until(&self, event: CUevent) {
        // In a forked child a thread that is no more may hold the lock, and nothing is waited for.
        if gate::check().is_ok() {
            lock(&self.until).push(event);
        }
    }

    /// The same, and nothing says how long.
    pub(super) fn never_done(&self) {
        self.never_done.store(true, Ordering::Relaxed);
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        let functions = self.context.driver().functions();
        if !self.raw.is_null() {
            // SAFETY: owned, and ends here; nothing that was instantiated from it is left.
            release::report(unsafe { raw::graph::graph_destroy(functions, self.raw) });
        }
        let mut marks = core::mem::take(self.until.get_mut().unwrap_or_else(PoisonError::into_inner));
        let (buffers, owners) = (core::mem::take(&mut self.kept.buffers), core::mem::take(&mut self.kept.owners));
        if self.never_done.load(Ordering::Relaxed) {
            if !(buffers.is_empty() && owners.is_empty()) {
                release::report(Err(Error::OrderLost));
            }
            core::mem::forget((buffers, owners));
        } else {
            // SAFETY: the marks are live.
            unsafe {
                marks.retain(|mark| !is_done(functions, *mark));
                for buffer in buffers {
                    free_after(functions, buffer, &marks);
                }
            }
            if !(marks.is_empty() || owners.is_empty()) {
                return self.context.parked_owners().park(Parked { owners, marks });
            }
            drop(owners);
        }
        for mark in marks {
            // SAFETY: nobody else has it; waits that were enqueued on it stay in force without it.
            release::report(unsafe { raw::event::event_destroy(functions, mark) });
        }
    }
}

/// Whether the mark has been passed, or all is over, which it takes two calls to believe. An event that is done is
/// destroyed.
///
/// # Safety
/// `mark` must be live, and not be used afterwards if it is done.
unsafe fn is_done(functions: &Functions, mark: CUevent) -> bool {
    // SAFETY: live, as the caller says.
    let done = match unsafe { raw::event::event_query(functions, mark) } {
        Ok(done) => done,
        Err(error) if release::is_over(&error) => {
            // SAFETY: as above.
            unsafe { raw::event::event_synchronize(functions, mark) }.as_ref().err().is_none_or(release::is_over)
        }
        Err(_) => false,
    };
    if done {
        // SAFETY: the caller does not use it any more.
        release::report(unsafe { raw::event::event_destroy(functions, mark) });
    }
    done
}

/// Drops a buffer so that its free comes after the marks; leaks it if that cannot be had.
///
/// # Safety
/// The marks must be live.
unsafe fn free_after(functions: &Functions, buffer: Box<dyn KeptBuffer>, marks: &[CUevent]) {
    let home = buffer.home_stream();
    let behind = marks.iter().try_for_each(|mark| {
        home.ensure_outside_captures()
            // SAFETY: the home stream is live as long as the buffer, and the mark is too.
            .and_then(|()| unsafe { raw::stream::stream_wait_event(functions, home.as_raw(), *mark) })
            // SAFETY: as above.
            .or_else(|error| unsafe { raw::event::event_synchronize(functions, *mark) }.map_err(|_| error))
    });
    match behind {
        Err(error) if !release::is_over(&error) => {
            core::mem::forget(buffer);
            release::report(Err(error));
        }
        _ => drop(buffer),
    }
}

/// Owners, and the marks after which nothing needs them.
struct Parked {
    owners: Owners,
    marks: Vec<CUevent>,
}

// SAFETY: event handles may be used from every thread, and the owners can be sent.
unsafe impl Send for Parked {}

/// What graphs of a context have kept, and launches may still use.
pub(crate) struct ParkedOwners(Mutex<Vec<Parked>>);

impl ParkedOwners {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn park(&self, parked: Parked) {
        lock(&self.0).push(parked);
    }

    /// Drops what is not needed any more, without waiting for the rest.
    pub(super) fn release_done(&self, functions: &Functions) {
        // In a forked child the lock may be held by a thread that is not there.
        if gate::check().is_err() {
            return;
        }
        let all = core::mem::take(&mut *lock(&self.0));
        for mut parked in all {
            // SAFETY: a parked mark is live, and is forgotten when it is done.
            parked.marks.retain(|mark| !unsafe { is_done(functions, *mark) });
            // The lock is not held while owners are dropped, who may come back here.
            if parked.marks.is_empty() {
                drop(parked.owners);
            } else {
                self.park(parked);
            }
        }
    }

    /// Drops everything, after waiting for what is still needed; what cannot be waited for is leaked. Returns how many
    /// owners that were.
    pub(crate) fn release_all(&self, functions: &Functions) -> usize {
        let all = core::mem::take(&mut *lock(&self.0));
        let mut released = 0;
        for Parked { owners, marks } in all {
            let mut waited = Ok(());
            for mark in marks {
                // SAFETY: a parked mark is live, and ends here.
                unsafe {
                    waited = waited.and(raw::event::event_synchronize(functions, mark));
                    release::report(raw::event::event_destroy(functions, mark));
                }
            }
            match waited {
                Err(error) if !release::is_over(&error) => {
                    core::mem::forget(owners);
                    release::report(Err(error));
                }
                _ => {
                    released += owners.len();
                    drop(owners);
                }
            }
        }
        released
    }
}

impl Context {
    /// Drops what was given to graphs to [`keep`](crate::Capture::keep) and is not needed any more: the graphs are gone.
    /// Waits for launches that may still use it. Returns how many things that were. Without it they stay until the next
    /// capture or instantiation in this context, or its end.
    ///
    /// # Errors
    /// [`Error::ForkedAfterInit`]. What cannot be waited for is leaked, and counted as a
    /// [release failure](crate::release_failures).
    #[doc(alias = "cuEventSynchronize")]
    pub fn trim_graph_owners(&self) -> Result<usize> {
        gate::check()?;
        Ok(self.parked_owners().release_all(self.driver().functions()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("buffers", &self.buffers.len()).field("owners", &self.owners.len()).finish()
    }
}

#[cfg(all(test, unix, not(cupool_shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Driver, Graph, gate::holds_in_child};

    #[test]
    fn a11_a_child_does_not_wait_for_a_lock_that_another_thread_held_and_leaves_owners_to_the_parent() {
        struct Counts(Arc<AtomicUsize>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        let simulator = cupool_sim::Simulator::new();
        // SAFETY: every entry behaves as the driver's.
        let driver = unsafe { Driver::from_functions(simulator.functions()) };
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let capture = || {
            Graph::capture(&context, |capture| {
                capture.keep(Counts(Arc::clone(&dropped)));
                Ok(())
            })
        };
        let mut graph = Some(capture().unwrap().0);
        let held = lock(&context.parked_owners().0);
        assert!(holds_in_child(|| {
            drop(graph.take());
            capture().err() == Some(Error::ForkedAfterInit) && dropped.load(Ordering::Relaxed) == 0
        }));
        drop(held);
    }
}
