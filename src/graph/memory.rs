//! Memory that a graph allocates and frees itself.

use core::{fmt, marker::PhantomData};

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use super::capture::{self, OwnMemory};
use crate::{
    DeviceSlice, DeviceSliceMut, Error, MemPool, Result, Stream, gate, raw,
    slice::{byte_len, is_aligned},
};

/// `len` elements that a graph allocates, each time it is launched.
///
/// Nothing is allocated while the graph is captured: the address, which is the same at every launch, stands for memory
/// that only the graph's own work can use. So this ends with the capture, and `Drop` frees nothing: the graph does, where
/// [`free`](Self::free) was called, or at its end.
#[must_use = "the graph allocates it in any case"]
pub struct GraphBuffer<'c, T> {
    /// 0 if there is nothing to hold.
    address: CUdeviceptr_v2,
    len: usize,
    stream: &'c Stream,
    /// `None` in somebody else's capture.
    memory: Option<&'c OwnMemory>,
    _elements: PhantomData<T>,
}

impl<'c, T: Pod> GraphBuffer<'c, T> {
    /// # Safety
    /// `stream` must be captured for all of `'c`.
    pub(super) unsafe fn alloc(
        pool: &MemPool,
        len: usize,
        stream: &'c Stream,
        memory: Option<&'c OwnMemory>,
    ) -> Result<Self> {
        let bytes = byte_len::<T>(len)?;
        pool.driver().ensure_same(stream.driver())?;
        let mut this = Self { address: 0, len, stream, memory, _elements: PhantomData };
        if bytes == 0 {
            return Ok(this);
        }
        gate::check()?;
        let functions = stream.driver().functions();
        // SAFETY: pool and stream are borrowed, hence live, and of one driver; the gate is open.
        this.address =
            unsafe { raw::memory::mem_alloc_from_pool_async(functions, bytes, pool.as_raw(), stream.as_raw()) }?;
        if let Some(memory) = memory {
            memory.add(this.address);
        }
        if is_aligned(this.address, align_of::<T>()) {
            return Ok(this);
        }
        let error = Error::Misaligned { address: this.address, align: align_of::<T>() };
        this.free()?;
        Err(error)
    }

    /// Has the graph free the memory at this point, and says how that went.
    ///
    /// # Errors
    /// Whatever the driver answers. The graph of a [`Capture`](crate::Capture) then frees the memory at its end.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn free(self) -> Result<()> {
        if self.address == 0 {
            return Ok(());
        }
        // SAFETY: the capture allocated it, and it was not freed: that takes this value. No view of it is left.
        unsafe { capture::free(self.stream, self.address) }?;
        if let Some(memory) = self.memory {
            memory.remove(self.address);
        }
        Ok(())
    }

    /// Has the graph leave the memory allocated, and answers its address (0 if there is nothing) and number of elements.
    ///
    /// After each launch the memory is there, for work behind it on the launching stream, until somebody frees it
    /// (`cuMemFreeAsync`, or a [`Buffer::from_raw_parts`](crate::Buffer::from_raw_parts) that is dropped), or the next
    /// launch does so first ([`InstantiateOptions::auto_free_on_launch`](crate::InstantiateOptions::auto_free_on_launch)).
    /// What the last launch left nobody frees but the caller: not the graph's end.
    #[must_use = "the memory stays allocated after each launch"]
    pub fn into_raw_parts(self) -> (CUdeviceptr_v2, usize) {
        if let (Some(memory), true) = (self.memory, self.address != 0) {
            memory.give_out(self.address);
        }
        (self.address, self.len)
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device address of the first element, for kernels and libraries that are captured too; 0 if nothing was
    /// allocated because there is nothing to hold.
    #[must_use]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.address
    }

    /// A shared view of all elements, at home on the stream that is captured.
    #[must_use]
    pub const fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: the graph's memory, allocated at this point of the capture, and freed only by what takes this value
        // or at the capture's end.
        unsafe { DeviceSlice::from_raw_parts(self.address, self.len, self.stream) }
    }

    /// An exclusive view of all elements, at home on the stream that is captured.
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: as above, and this is borrowed exclusively for as long as the view lives.
        unsafe { DeviceSliceMut::from_raw_parts(self.address, self.len, self.stream) }
    }
}

impl<T> fmt::Debug for GraphBuffer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBuffer")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .field("stream", &self.stream.as_raw())
            .finish_non_exhaustive()
    }
}

impl MemPool {
    /// Has the graph that somebody else captures on `stream` allocate `len` elements; see
    /// [`Capture::alloc`](crate::Capture::alloc). Nothing frees them but [`GraphBuffer::free`] and what
    /// [`GraphBuffer::into_raw_parts`] says.
    ///
    /// # Errors
    /// [`Error::NotCapturing`] if `stream` is not being captured;
    /// [`Error::StreamCapturing`] for the stream of a [`Capture`](crate::Capture), which has a function of its own; else
    /// as there.
    ///
    /// # Safety
    /// The capture that is under way on `stream` must last until the buffer and all views of it are gone.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub unsafe fn alloc_captured<'s, T: Pod>(&self, len: usize, stream: &'s Stream) -> Result<GraphBuffer<'s, T>> {
        stream.ensure_not_captured()?;
        if !stream.is_capturing()? {
            return Err(Error::NotCapturing);
        }
        // SAFETY: the stream is captured, and stays so, says the caller.
        unsafe { GraphBuffer::alloc(self, len, stream, None) }
    }
}
