//! A capture under way: its stream, and what is done there.

use core::{
    cell::{Cell, RefCell},
    fmt,
};

use bytemuck::Pod;
use cuda_sys::{CUdeviceptr_v2, CUgraph, CUstreamCaptureMode};

use super::{
    kept::{Kept, KeptBuffer},
    memory::GraphBuffer,
};
use crate::{
    Context, DeviceSlice, DeviceSliceMut, Error, MemPool, RelaxedCaptureMode, Result, Stream, gate, raw, release,
};

/// A stream that is captured until this ends.
pub(super) struct Recording {
    stream: Stream,
    state: Recorded,
    /// Keeps other threads' calls from spoiling the capture, and has allocations look whose stream theirs is. Dropped after
    /// the stream.
    _beside: RelaxedCaptureMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    UnderWay,
    /// The end was refused: of a capture that was spoilt it is an end all the same.
    Refused,
    Ended,
}

impl Recording {
    pub(super) fn begin(context: &Context, mode: CUstreamCaptureMode) -> Result<Self> {
        let beside = RelaxedCaptureMode::new(context.driver());
        let mut this = Self { stream: Stream::for_capture(context)?, state: Recorded::Ended, _beside: beside };
        // SAFETY: the stream was just made.
        unsafe { raw::graph::stream_begin_capture(context.driver().functions(), this.stream.as_raw(), mode) }?;
        this.state = Recorded::UnderWay;
        Ok(this)
    }

    pub(super) const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Ends the capture and answers what became of it.
    pub(super) fn end(mut self) -> Result<CUgraph> {
        let (ended, graph) = self.end_raw();
        match ended {
            Ok(()) => {
                self.state = Recorded::Ended;
                Ok(graph)
            }
            Err(error) => {
                self.state = Recorded::Refused;
                destroy(&self.stream, graph);
                Err(error)
            }
        }
    }
}

impl Recording {
    fn end_raw(&self) -> (Result<()>, CUgraph) {
        // SAFETY: the stream is live.
        unsafe { raw::graph::stream_end_capture(self.stream.driver().functions(), self.stream.as_raw()) }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        match self.state {
            Recorded::Ended => return,
            Recorded::UnderWay => {
                let (ended, graph) = self.end_raw();
                destroy(&self.stream, graph);
                if ended.is_ok() {
                    return;
                }
            }
            Recorded::Refused => {}
        }
        // A capture that was spoilt is over when its end was refused; one that was not has yet to be ended.
        if self.stream.is_capturing().unwrap_or(true) {
            let (ended, graph) = self.end_raw();
            destroy(&self.stream, graph);
            release::report(ended);
        }
    }
}

/// Destroys a graph that nobody gets. After a capture that failed there is none, and destroying that would be fatal.
fn destroy(stream: &Stream, graph: CUgraph) {
    if !graph.is_null() {
        // SAFETY: the graph was just made, and nobody has seen it.
        release::report(unsafe { raw::graph::graph_destroy(stream.driver().functions(), graph) });
    }
}

/// A capture under way, in the closure that [`Graph::capture`](crate::Graph::capture) runs.
///
/// Work goes into the graph through views: of ordinary memory by [`slice`](Self::slice) and
/// [`slice_mut`](Self::slice_mut), of the graph's own by [`alloc`](Self::alloc). They are at home on the
/// capture's stream, and are filled and copied between as ever. What would have to be ordered with other streams or with
/// the host is refused there with [`Error::StreamCapturing`], before any driver call, and the capture stays whole:
/// copies from and to the host, fences with memory of other homes, allocations from a pool, events, waits.
#[derive(Debug)]
pub struct Capture<'s> {
    stream: &'s Stream,
    kept: &'s RefCell<Kept>,
    memory: OwnMemory,
}

/// What a graph allocates.
#[derive(Debug, Default)]
pub(super) struct OwnMemory {
    unfreed: RefCell<Vec<CUdeviceptr_v2>>,
    outputs: Cell<bool>,
}

impl<'s> Capture<'s> {
    pub(super) fn new(stream: &'s Stream, kept: &'s RefCell<Kept>) -> Self {
        Self { stream, kept, memory: OwnMemory::default() }
    }

    /// The stream that is captured: for kernels and libraries, and of no use to anything else.
    ///
    /// What is launched here becomes part of the graph. A kernel of this crate (feature
    /// `launch`) takes views of this capture as arguments, and refuses memory of other homes.
    #[must_use]
    pub const fn stream(&self) -> &Stream {
        self.stream
    }

    /// A view of memory that exists without the graph, for reading it in the graph. No driver call, and no fence: the
    /// order is that of the launch.
    ///
    /// # Errors
    /// [`Error::DriverMismatch`]; [`Error::OrderLost`]; [`Error::LoanForgotten`] if the memory was given up;
    /// [`Error::StreamCapturing`] for memory of another capture.
    pub fn slice<'a, T: Pod>(&'a self, memory: DeviceSlice<'a, T>) -> Result<DeviceSlice<'a, T>> {
        self.admit(memory.home(), memory.as_raw(), memory.byte_len())?;
        // SAFETY: the view is valid at its home; nothing that is captured runs before the launch, whose caller vouches
        // that it is valid there and then.
        Ok(unsafe { DeviceSlice::from_raw_parts(memory.as_raw(), memory.len(), self.stream) })
    }

    /// A view of memory that exists without the graph, for writing it in the graph. No driver call, and no fence.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn slice_mut<'a, T: Pod>(&'a self, memory: DeviceSliceMut<'a, T>) -> Result<DeviceSliceMut<'a, T>> {
        self.admit(memory.home(), memory.as_raw(), memory.byte_len())?;
        // SAFETY: as above; the view is used up.
        Ok(unsafe { DeviceSliceMut::from_raw_parts(memory.as_raw(), memory.len(), self.stream) })
    }

    fn admit(&self, home: &Stream, address: CUdeviceptr_v2, bytes: usize) -> Result<()> {
        self.stream.driver().ensure_same(home.driver())?;
        if bytes == 0 || home.is_same(self.stream) {
            return Ok(());
        }
        home.ensure_not_captured()?;
        home.ensure_ordered()?;
        if address == 0 { Err(Error::LoanForgotten) } else { Ok(()) }
    }

    /// Has the graph allocate `len` elements, with whatever bytes are there.
    ///
    /// The memory is the graph's: every launch makes it anew, at the same address, and frees it where
    /// [`GraphBuffer::free`] says so, or else at its end. It comes from memory that the driver keeps for the device's
    /// graphs; of `pool` it only has the properties. A pool whose memory can be shared with other processes is refused
    /// by the driver (`CUDA_ERROR_NOT_SUPPORTED`, 801), and the graph cannot be instantiated then.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`] and [`Error::DriverMismatch`] before any call; else whatever the driver answers.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub fn alloc<T: Pod>(&self, pool: &MemPool, len: usize) -> Result<GraphBuffer<'_, T>> {
        // SAFETY: the stream is captured for as long as this exists, and what is allocated is freed by `finish`, unless
        // it was before.
        unsafe { GraphBuffer::alloc(pool, len, self.stream, Some(&self.memory)) }
    }

    /// Keeps a buffer alive for as long as the graph, or anything instantiated from it, exists; and then until the
    /// launches are done: its home stream waits for them before it is freed. The host does not wait.
    ///
    /// Takes a [`Buffer`](crate::Buffer), or one that is shared, in an [`Arc`](std::sync::Arc).
    ///
    /// # Errors
    /// [`Error::DriverMismatch`]; the buffer is dropped then.
    pub fn keep_buffer(&self, buffer: impl KeptBuffer) -> Result<()> {
        self.stream.driver().ensure_same(buffer.home_stream().driver())?;
        self.kept.borrow_mut().buffers.push(Box::new(buffer));
        Ok(())
    }

    /// Keeps anything alive for as long as the graph, or anything instantiated from it, exists; and then until the
    /// launches are known to be done.
    ///
    /// If they are not when the last of those is dropped, `owner` stays with the context: until the next capture or
    /// instantiation in it, [`Context::trim_graph_owners`], or the context's end. An owner that itself keeps the
    /// context alive delays that end, so give buffers to [`keep_buffer`](Self::keep_buffer) where that can be. A panic
    /// in its `Drop` is counted as a [release failure](crate::release_failures).
    pub fn keep(&self, owner: impl Send + 'static) {
        self.kept.borrow_mut().owners.push(Box::new(owner));
    }

    /// Has the graph free what it has allocated and not freed, and answers whether some of the memory was given out.
    pub(super) fn finish(self) -> Result<bool> {
        for address in self.memory.unfreed.take() {
            // SAFETY: the stream is captured, allocated this, and did not free it; views of it have ended.
            unsafe { free(self.stream, address) }?;
        }
        Ok(self.memory.outputs.get())
    }
}

impl OwnMemory {
    pub(super) fn add(&self, address: CUdeviceptr_v2) {
        self.unfreed.borrow_mut().push(address);
    }

    /// The memory is not to be freed at the end any more.
    pub(super) fn remove(&self, address: CUdeviceptr_v2) {
        self.unfreed.borrow_mut().retain(|unfreed| *unfreed != address);
    }

    /// Nor by the graph at all.
    pub(super) fn give_out(&self, address: CUdeviceptr_v2) {
        self.remove(address);
        self.outputs.set(true);
    }
}

/// # Safety
/// `stream` must be captured, and the memory allocated by the same capture, unfreed, and not be used afterwards.
pub(super) unsafe fn free(stream: &Stream, address: CUdeviceptr_v2) -> Result<()> {
    gate::check()?;
    // SAFETY: the caller vouches for the memory, and the stream is borrowed, hence live.
    Ok(unsafe { raw::memory::mem_free_async(stream.driver().functions(), address, stream.as_raw()) }?)
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("stream", &self.stream).field("state", &self.state).finish_non_exhaustive()
    }
}
