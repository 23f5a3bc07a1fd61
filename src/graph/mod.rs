//! Graphs: work that is captured once and launched many times.
//!
//! A [`Graph`] is captured on a stream of its own, which nobody else has. What the closure does there through the views
//! that [`Capture`] hands out becomes part of the graph; memory that it allocates there is the graph's own, made and
//! freed by each launch. Nothing is fenced while a graph is captured, since nothing runs: the order with everything
//! else is that of the launch, which is therefore `unsafe`.

mod capture;
mod exec;
mod kept;
mod memory;
mod status;

use core::{
    cell::{Cell, RefCell},
    fmt,
    marker::PhantomData,
};
use std::sync::Arc;

use cuda_sys::{CUgraph, CUgraphInstantiate_flags_enum, CUstreamCaptureMode};

pub use capture::Capture;
pub use exec::GraphExec;
pub use kept::KeptBuffer;
pub(crate) use kept::ParkedOwners;
pub use memory::GraphBuffer;
pub use status::CaptureStatus;

use crate::{Context, Driver, Result};
use capture::Recording;
use kept::Captured;

/// Work that was captured, and what was given to it to keep.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let pool = MemPool::new(&device)?;
/// let mut total = pool.alloc_zeroed::<u32, _>(256, &stream)?;
/// let (graph, ()) = Graph::capture(&context, |capture| {
///     // Memory of the graph's own: each launch allocates it, and frees it.
///     let mut scratch = capture.alloc::<u32>(&pool, 256)?;
///     scratch.as_mut_slice().fill(7)?;
///     capture.slice_mut(total.as_mut_slice())?.copy_from(scratch.as_slice())?;
///     scratch.free()
/// })?;
/// let mut exec = graph.instantiate(InstantiateOptions::default())?;
/// // SAFETY: `total` is at home on this stream, and is not dropped before the launch is done.
/// unsafe { exec.launch(&stream)? };
/// assert_eq!(total.to_vec()?, [7; 256]);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "cuGraphDestroy")]
pub struct Graph {
    captured: Arc<Captured>,
    /// The driver does not lock graphs.
    _one_thread_at_a_time: PhantomData<Cell<()>>,
}

/// Which calls a capture forbids while it is under way: those that may wait for the device, or that make or release
/// something outside any stream's order. Who makes one ends the capture in an error, and is refused.
///
/// What this crate does with pools, events and host memory is not among them, on whatever thread.
#[doc(alias = "cuThreadExchangeStreamCaptureMode")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureMode {
    /// Those of the thread that captures.
    #[default]
    ThreadLocal,
    /// Those of every thread in the process.
    Global,
    /// None. What they do is then not part of the graph.
    Relaxed,
}

impl CaptureMode {
    const fn raw(self) -> CUstreamCaptureMode {
        match self {
            Self::ThreadLocal => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            Self::Global => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            Self::Relaxed => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
        }
    }
}

/// How a graph is made ready to be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstantiateOptions {
    /// Whether a launch frees what an earlier one allocated, gave out
    /// ([`GraphBuffer::into_raw_parts`]) and nobody has freed since. Without it such a launch is refused. Of no effect on
    /// a graph that frees all its memory itself.
    pub auto_free_on_launch: bool,
    /// Whether kernels run with the priorities that they were captured with, rather than the launching stream's.
    /// Since CUDA 11.7.
    pub use_node_priority: bool,
}

impl Default for InstantiateOptions {
    /// Frees what an earlier launch left; the launching stream's priority.
    fn default() -> Self {
        Self { auto_free_on_launch: true, use_node_priority: false }
    }
}

impl Graph {
    /// Captures what `record` does with the [`Capture`] it is given, and answers the graph along with what `record`
    /// returned. Forbids calls to this thread only; see [`capture_with`](Self::capture_with).
    ///
    /// # Errors
    /// As [`capture_with`](Self::capture_with).
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cuStreamEndCapture")]
    pub fn capture<R>(context: &Context, record: impl FnOnce(&Capture<'_>) -> Result<R>) -> Result<(Self, R)> {
        Self::capture_with(context, CaptureMode::default(), record)
    }

    /// Captures what `record` does, in that mode.
    ///
    /// The capture is on a stream of its own, and ended whatever becomes of `record`, a panic included. Another capture
    /// may be begun inside; the two have nothing to do with each other.
    ///
    /// # Errors
    /// Whatever `record` or the driver answers. `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` (901) if somebody made a call
    /// that `mode` forbids. [`Error::Unsupported`](crate::Error::Unsupported) before CUDA 10.1;
    /// [`Error::NotPrimary`](crate::Error::NotPrimary) if `context` is not a primary one.
    #[doc(alias = "cuStreamBeginCapture")]
    #[doc(alias = "cuStreamEndCapture")]
    pub fn capture_with<R>(
        context: &Context,
        mode: CaptureMode,
        record: impl FnOnce(&Capture<'_>) -> Result<R>,
    ) -> Result<(Self, R)> {
        context.parked_owners().release_done(context.driver().functions());
        let shared = context.try_clone()?;
        // The last to go: what is released with it is no concern of the capture's.
        let kept = RefCell::default();
        let recording = Recording::begin(context, mode.raw())?;
        let capture = Capture::new(recording.stream(), &kept);
        let recorded = record(&capture)?;
        let outputs = capture.finish()?;
        let raw = recording.end()?;
        Ok((Self::new(Captured::new(raw, shared, kept.into_inner(), outputs)), recorded))
    }

    fn new(captured: Captured) -> Self {
        Self { captured: Arc::new(captured), _one_thread_at_a_time: PhantomData }
    }

    /// Takes over the graph `raw`, which is for `context`.
    ///
    /// # Errors
    /// [`Error::NotPrimary`](crate::Error::NotPrimary) if `context` is not a primary one; the graph is not taken then.
    ///
    /// # Safety
    /// `raw` must be a live graph, not null, and the caller must own it.
    pub unsafe fn from_raw(context: &Context, raw: CUgraph) -> Result<Self> {
        // Nothing is known of what it allocates.
        Ok(Self::new(Captured::new(raw, context.try_clone()?, kept::Kept::default(), true)))
    }

    /// The driver's handle.
    #[must_use]
    pub fn as_raw(&self) -> CUgraph {
        self.captured.raw()
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

    /// Makes the graph ready to be launched. It can be done several times, for launches that run at once; of a graph
    /// that allocates memory there can only be one at a time.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) before CUDA 11.4; else whatever the driver answers.
    #[doc(alias = "cuGraphInstantiateWithFlags")]
    #[doc(alias = "cuGraphInstantiate")]
    pub fn instantiate(&self, options: InstantiateOptions) -> Result<GraphExec> {
        let context = self.context();
        context.parked_owners().release_done(context.driver().functions());
        let mut flags = 0;
        if options.auto_free_on_launch && self.captured.has_outputs() {
            flags |= u64::from(CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0);
        }
        if options.use_node_priority {
            flags |= u64::from(CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0);
        }
        GraphExec::new(&self.captured, flags)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("raw", &self.as_raw()).field("context", self.context()).finish()
    }
}
