//! Owners of foreign memory that is dropped, and imported pools: kept until the device is done with what they own.
//!
//! Waiting for the device in a `Drop` would hold the host up, and dropping an owner there would take memory away that
//! enqueued work still uses. So the home stream's work is marked with an event, and event and owner wait here until
//! somebody finds that the mark was passed: whoever retires the next owner, whoever asks for it, or the end of the
//! context.

use core::{cell::Cell, mem::forget};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use cuda_sys::{CUcontext, CUevent, CUevent_flags_enum, Functions};

use crate::{
    Context, Error, Result, Stream, gate, order, raw, release,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many of those that wait are asked about when another comes: more than one, so that they become fewer.
const ASKED: usize = 4;

thread_local! {
    /// Whether this thread is dropping owners whose turn has come.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
}

/// A context's retired owners, and the events that they no longer need.
pub(crate) struct Retired(Mutex<Queue>);

struct Queue {
    waiting: VecDeque<Waiting>,
    spare: Vec<Marker>,
}

struct Waiting {
    marker: Marker,
    owner: Box<dyn Send>,
}

/// An event that nobody else has.
pub(crate) struct Marker(CUevent);

// SAFETY: event handles may be used from every thread, and the driver does its own locking.
unsafe impl Send for Marker {}
// SAFETY: as above.
unsafe impl Sync for Marker {}

/// What is left to do before the device is done with a stream's memory.
enum Marked {
    /// The marker says when.
    Pending,
    /// Nothing.
    Done,
}

impl Marker {
    #[cfg(feature = "dlpack")]
    pub(crate) const fn as_raw(&self) -> CUevent {
        self.0
    }

    /// Marks the end of all that `home` was given; without a mark, the host waits for it.
    fn mark(&self, home: &Stream) -> Result<Marked> {
        let waited = |error| order::wait_on_host(home).map(|()| Marked::Done).map_err(|_| error);
        match home.is_capturing() {
            // What is being captured would run after the mark, and any number of times.
            Ok(true) => return Err(Error::StreamCapturing),
            Ok(false) => {}
            Err(error) => return waited(error),
        }
        // SAFETY: the event is live, and of the stream's context.
        match unsafe { raw::event::event_record(home.driver().functions(), self.0, home.as_raw()) } {
            Ok(()) => Ok(Marked::Pending),
            Err(error) => waited(error),
        }
    }
}

impl Retired {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Queue { waiting: VecDeque::new(), spare: Vec::new() }))
    }

    /// Drops `owner` once all that `home` was given so far is done. Gives it up where nothing would tell.
    pub(crate) fn retire(&self, home: &Stream, marker: Marker, owner: Box<dyn Send>) {
        match marker.mark(home) {
            Ok(Marked::Pending) => {
                self.lock().waiting.push_back(Waiting { marker, owner });
                self.drop_some(home.driver().functions());
            }
            Ok(Marked::Done) => {
                self.put_back(marker);
                guarded(|| drop(owner));
            }
            Err(error) => {
                self.put_back(marker);
                end_in_vain(owner, error);
            }
        }
    }

    /// Asks about a few, without waiting, and drops those whose work is done. An owner that retires others has this not
    /// done again inside, or the stack would grow with the number of those that wait.
    fn drop_some(&self, functions: &Functions) {
        if DROPPING.replace(true) {
            return;
        }
        self.drop_few(functions);
        DROPPING.set(false);
    }

    fn drop_few(&self, functions: &Functions) {
        let waiting = self.lock().waiting.len();
        for _ in 0..waiting.min(ASKED) {
            let Some(first) = self.lock().waiting.pop_front() else { return };
            // SAFETY: a marker's event is live.
            if let Ok(true) = unsafe { raw::event::event_query(functions, first.marker.0) } {
                self.put_back(first.marker);
                guarded(|| drop(first.owner));
            } else {
                self.lock().waiting.push_back(first);
            }
        }
    }

    /// Drops all owners, after waiting for what is not done; those whose work cannot be waited for are given up.
    /// Returns how many were dropped.
    ///
    /// # Safety
    /// They must be of the live context `context`.
    pub(crate) unsafe fn drop_all(&self, functions: &Functions, context: CUcontext) -> usize {
        let all = core::mem::take(&mut self.lock().waiting);
        let mut dropped = 0;
        for Waiting { marker, owner } in all {
            // SAFETY: a marker's event is live, and so is the context.
            let waited = unsafe {
                raw::event::event_synchronize(functions, marker.0).or_else(|error| {
                    let synchronize = || raw::context::ctx_synchronize(functions);
                    raw::context::with_current(functions, context, synchronize).map_err(|_| error)
                })
            };
            self.put_back(marker);
            match waited {
                Ok(()) => {
                    dropped += 1;
                    // No lock is held: an owner may retire others.
                    guarded(|| drop(owner));
                }
                Err(error) => end_in_vain(owner, error),
            }
        }
        dropped
    }

    /// Ends everything; the context goes next.
    ///
    /// # Safety
    /// As [`drop_all`](Self::drop_all).
    pub(crate) unsafe fn end(&self, functions: &Functions, context: CUcontext) {
        // SAFETY: as the caller says.
        unsafe { self.drop_all(functions, context) };
        let spare = core::mem::take(&mut self.lock().spare);
        for marker in spare {
            // SAFETY: nobody else has the event, and it is forgotten here.
            release::report(unsafe { raw::event::event_destroy(functions, marker.0) });
        }
    }

    pub(crate) fn put_back(&self, marker: Marker) {
        // In a forked child the lock may be held by a thread that is not there.
        if gate::check().is_ok() {
            self.lock().spare.push(marker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops `owner` if the device's part in its memory has ended with the driver or the context, and else gives it up. In a
/// forked child it is the parent's.
fn end_in_vain(owner: Box<dyn Send>, error: Error) {
    if release::is_over(&error) && gate::check().is_ok() {
        guarded(|| drop(owner));
    } else {
        forget(owner);
        release::report(Err(error));
    }
}

/// Runs what belongs to somebody else; a panic does not leave it, and is counted.
pub(crate) fn guarded(end: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(end)) {
        // Dropping it could panic again.
        forget(payload);
        release::report(Err(Error::OwnerPanicked));
    }
}

impl Context {
    /// Drops the owners of [`ForeignBuffer`](crate::ForeignBuffer)s that were dropped, and destroys
    /// [`ImportedPool`](crate::ipc::ImportedPool)s that were; returns how many of both. Waits for the device to be done
    /// with their memory. Without it, this is done for each some time after its work is done: when others of the context are
    /// dropped, or with the context's last owner.
    ///
    /// # Errors
    /// [`Error::ForkedAfterInit`]. What cannot be waited for is leaked, and counted as a
    /// [release failure](crate::release_failures).
    #[doc(alias = "cuEventSynchronize")]
    pub fn drop_retired(&self) -> Result<usize> {
        gate::check()?;
        // SAFETY: what is retired here is of this context, which is live.
        Ok(unsafe { self.retired().drop_all(self.driver().functions(), self.as_raw()) })
    }

    /// An event of this context, for one use at a time.
    pub(crate) fn marker(&self) -> Result<Marker> {
        gate::check()?;
        // Not in the condition: the lock would be held as long as that.
        let spare = self.retired().lock().spare.pop();
        if let Some(marker) = spare {
            return Ok(marker);
        }
        let functions = self.driver().functions();
        self.with_current(|| {
            // SAFETY: `with_current` makes the context current that is to own the event.
            unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }.map(Marker)
        })
    }
}

#[cfg(all(test, unix, not(cupool_shuttle)))]
mod tests {
    use crate::{Driver, Error, ForeignBuffer, Stream, gate::holds_in_child};

    #[test]
    fn a11_a_child_does_not_wait_for_a_lock_that_another_thread_held() {
        let simulator = cupool_sim::Simulator::new();
        // SAFETY: every entry behaves as the driver's.
        let driver = unsafe { Driver::from_functions(simulator.functions()) };
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = Stream::new(&context).unwrap();
        // SAFETY: nothing is ever done with the memory.
        let foreign = || unsafe { ForeignBuffer::<u32, _, _>::new(512, 1, &stream, ()) }.map_err(|(error, ())| error);
        let mut ours = Some(foreign().unwrap());
        let held = stream.context().retired().lock();
        assert!(holds_in_child(|| {
            drop(ours.take());
            foreign().err() == Some(Error::ForkedAfterInit)
        }));
        drop(held);
    }
}
