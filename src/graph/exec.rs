//! Graphs that are ready to be launched.

use core::fmt;
use std::sync::Arc;

use cuda_sys::{CUevent, CUevent_flags_enum, CUgraphExec};

use super::kept::Captured;
use crate::{Context, Driver, Error, Result, Stream, order, raw, release};

/// A graph that can be launched, as often as wanted; each launch comes after the ones before.
///
/// It keeps the graph, and what that was given to keep. Dropping it does not wait: a launch under way runs to its end,
/// and what it needs is released after that.
#[doc(alias = "cuGraphExecDestroy")]
pub struct GraphExec {
    raw: CUgraphExec,
    captured: Arc<Captured>,
    /// Marks the last launch.
    done: CUevent,
    launches: Launches,
}

/// What is known of the launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launches {
    None,
    /// The event marks the last, and all earlier ones come before that.
    Marked,
    /// Nothing says when they are done.
    Lost,
}

// SAFETY: handles may be used from every thread; the driver does not lock such a graph, so it is launched exclusively.
unsafe impl Send for GraphExec {}
// SAFETY: shared, it can only be asked after its event, which the driver locks itself.
unsafe impl Sync for GraphExec {}

impl GraphExec {
    pub(super) fn new(captured: &Arc<Captured>, flags: u64) -> Result<Self> {
        let context = captured.context();
        let functions = context.driver().functions();
        context.with_current(|| {
            // The mark behind a launch must not fail for want of an event.
            // SAFETY: `with_current` makes the graph's context current.
            let done = unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }?;
            // SAFETY: the graph is live, and only its `Graph`, which is on this thread, instantiates it.
            match unsafe { raw::graph::graph_instantiate(functions, captured.raw(), flags) } {
                Ok(raw) => Ok(Self { raw, captured: Arc::clone(captured), done, launches: Launches::None }),
                Err(error) => {
                    // SAFETY: the event was just made, and nobody has seen it.
                    release::report(unsafe { raw::event::event_destroy(functions, done) });
                    Err(error)
                }
            }
        })
    }

    /// The driver's handle.
    #[must_use]
    pub const fn as_raw(&self) -> CUgraphExec {
        self.raw
    }

    /// The context that the graph was captured in.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.captured.context()
    }

    /// The driver it belongs to.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.context().driver()
    }

    /// Enqueues one launch on `stream` and returns: behind what the stream has been given, and behind the launch before,
    /// on whatever stream that was. Two driver calls, after the question whether the stream is being captured.
    ///
    /// # Errors
    /// [`Error::DriverMismatch`], and [`Error::StreamCapturing`], before anything is enqueued; `CUDA_ERROR_INVALID_VALUE`
    /// if memory that an earlier launch gave out has not been freed and
    /// [`auto_free_on_launch`](crate::InstantiateOptions::auto_free_on_launch) is off; else whatever the driver answers.
    ///
    /// # Safety
    /// - Memory that was captured, of buffers and others, must be allocated from this point of `stream`'s order until the
    ///   launch is done. What was given to [`Capture::keep_buffer`](crate::Capture::keep_buffer) and
    ///   [`Capture::keep`](crate::Capture::keep) is.
    /// - What the graph does must be ordered with all other use of that memory, which is ordered on its home stream: if
    ///   that is not `stream`, `stream` must wait for it ([`Stream::wait_for`]), and it for `stream` afterwards.
    /// - Memory that an earlier launch gave out and nobody has freed, this launch frees, with
    ///   [`auto_free_on_launch`](crate::InstantiateOptions::auto_free_on_launch): nobody may own it, or use it after this
    ///   point of `stream`'s order, or use it before in an order of which `stream` knows nothing.
    /// - What was captured with raw handles must be valid to run, and the modules of captured kernels must stay loaded
    ///   until the launch is done: give those to [`Capture::keep`](crate::Capture::keep).
    #[doc(alias = "cuGraphLaunch")]
    #[doc(alias = "cuEventRecord")]
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<()> {
        self.driver().ensure_same(stream.driver())?;
        stream.ensure_not_capturing()?;
        stream.ensure_ordered()?;
        let functions = stream.driver().functions();
        // SAFETY: both are live, and this is borrowed exclusively; the caller vouches for what the graph does.
        let launched = unsafe { raw::graph::graph_launch(functions, self.raw, stream.as_raw()) };
        // Also after a failure: the driver does not promise that a failed call has enqueued nothing.
        let marked = self.mark(stream, launched.is_ok());
        launched.and(marked)
    }

    /// Has the event mark all launches so far, the last of which was on `stream`.
    fn mark(&mut self, stream: &Stream, in_order: bool) -> Result<()> {
        if self.launches == Launches::Lost {
            return Ok(());
        }
        let functions = stream.driver().functions();
        let again = self.launches == Launches::Marked;
        // A launch that failed need not have come after the one before.
        let ordered = if again && !in_order {
            // SAFETY: stream and event are live.
            unsafe { raw::stream::stream_wait_event(functions, stream.as_raw(), self.done) }
        } else {
            Ok(())
        };
        // SAFETY: as above.
        let marked = ordered.and_then(|()| unsafe { raw::event::event_record(functions, self.done, stream.as_raw()) });
        let Err(error) = marked else {
            self.launches = Launches::Marked;
            return Ok(());
        };
        // A launch that came after those before is done when they are; of others the event still tells.
        let before = if again && !in_order {
            // SAFETY: as above.
            unsafe { raw::event::event_synchronize(functions, self.done) }
        } else {
            Ok(())
        };
        if before.and_then(|()| order::wait_on_host(stream)).is_err() {
            self.launches = Launches::Lost;
            return Err(error);
        }
        // What was launched is done. A mark may have been set all the same, which does no harm.
        Ok(())
    }

    /// Whether all launches so far are done; true if there was none.
    ///
    /// # Errors
    /// [`Error::OrderLost`] if one could not be marked; else whatever the driver answers. A fault of earlier work
    /// surfaces here; see [`Error::is_sticky`].
    #[doc(alias = "cuEventQuery")]
    pub fn query(&self) -> Result<bool> {
        match self.launches {
            Launches::None => Ok(true),
            Launches::Lost => Err(Error::OrderLost),
            // SAFETY: the event is live as long as this value.
            Launches::Marked => unsafe { raw::event::event_query(self.driver().functions(), self.done) },
        }
    }

    /// Waits on the host until all launches so far are done.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    #[doc(alias = "cuEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        match self.launches {
            Launches::None => Ok(()),
            Launches::Lost => Err(Error::OrderLost),
            // SAFETY: the event is live as long as this value.
            Launches::Marked => unsafe { raw::event::event_synchronize(self.driver().functions(), self.done) },
        }
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        let functions = self.driver().functions();
        // SAFETY: owned, and ends here; a launch under way runs to its end without it.
        release::report(unsafe { raw::graph::graph_exec_destroy(functions, self.raw) });
        match self.launches {
            // SAFETY: owned, and ends here.
            Launches::None => release::report(unsafe { raw::event::event_destroy(functions, self.done) }),
            Launches::Marked => self.captured.runs_until(self.done),
            Launches::Lost => {
                self.captured.never_done();
                // SAFETY: as above.
                release::report(unsafe { raw::event::event_destroy(functions, self.done) });
            }
        }
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec")
            .field("raw", &self.raw)
            .field("context", self.context())
            .field("launches", &self.launches)
            .finish_non_exhaustive()
    }
}
