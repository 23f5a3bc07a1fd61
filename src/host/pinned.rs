//! Owned page-locked memory, and the copies that go on after the call.

mod raw_parts;

use core::{fmt, mem::ManuallyDrop, ptr::NonNull, slice};

use bytemuck::Pod;
use cuda_sys::{CUdeviceptr_v2, CUevent_flags_enum};

use super::parked::Memory;
use crate::{
    Context, DeviceSlice, DeviceSliceMut, Error, Result, Stream, gate, order, raw, release,
    slice::{byte_len, ensure_same_len, is_aligned},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// `len` elements of page-locked host memory, for copies that do not keep the host waiting.
///
/// [`DeviceSliceMut::copy_from_pinned`] and [`DeviceSlice::copy_to_pinned`] return at once. To look at the elements is to
/// wait for just the copies of this buffer that make it necessary: [`as_slice`](Self::as_slice) for those that write
/// it, [`as_mut_slice`](Self::as_mut_slice) for those that read it too. The memory of a buffer that is dropped, in the
/// middle of a copy or not, stays with the context for the next one; `Drop` makes no driver call.
/// [`Context::trim_pinned`] frees it.
///
/// Copies go to and from memory of the buffer's own context; on a stream of another one the host waits for them.
///
/// The memory is ordinary, cached memory, as fast for the host as any.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let pool = MemPool::new(&device)?;
/// let mut host = PinnedBuffer::from_slice(&context, &[1_u32, 2, 3])?;
/// let mut buffer = pool.alloc::<u32, _>(3, &stream)?;
/// buffer.as_mut_slice().copy_from_pinned(&host)?; // returns at once
/// host.as_mut_slice()?.fill(0); // waits for the copy that reads it
/// buffer.as_slice().copy_to_pinned(&mut host)?; // returns at once
/// assert_eq!(host.as_slice()?, [1, 2, 3]); // waits for the copy that writes it
/// # Ok::<(), Error>(())
/// ```
pub struct PinnedBuffer<T> {
    memory: NonNull<T>,
    len: usize,
    /// `None` where there is nothing to hold.
    owned: Option<Owned>,
}

struct Owned {
    pinned: ManuallyDrop<Memory>,
    context: Context,
    pending: Mutex<Pending>,
}

/// Copies that may not be done. The event marks the last of them, which comes after the others.
#[derive(Clone, Copy)]
struct Pending {
    uses: Uses,
    /// How many copies there were so far.
    copies: u64,
    /// The [serial](Stream::serial) of the stream that the last was put on.
    stream: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    Nothing,
    /// The device reads the memory.
    Reads,
    /// The device writes the memory.
    Writes,
    /// The device may use the memory, and nothing marks the end of it.
    Lost,
}

// SAFETY: the memory is owned like a `Vec<T>`, and what the device does with it is behind the lock.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: Pod> PinnedBuffer<T> {
    /// Allocates `len` elements, all zero.
    ///
    /// # Errors
    /// [`Error::HostMemory`] if so much cannot be page-locked; [`Error::SizeOverflow`] before any call;
    /// [`Error::Misaligned`] for types aligned to more than a page; else whatever the driver answers.
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cuMemAllocHost")]
    pub fn new(context: &Context, len: usize) -> Result<Self> {
        let bytes = byte_len::<T>(len)?;
        if bytes == 0 {
            return Ok(Self { memory: NonNull::dangling(), len, owned: None });
        }
        if bytes > isize::MAX.unsigned_abs() {
            return Err(Error::SizeOverflow { len, size: size_of::<T>() });
        }
        let context = context.try_clone()?;
        let pinned = context.take_pinned(bytes)?;
        let pending = Mutex::new(Pending { uses: Uses::Nothing, copies: 0, stream: 0 });
        // Owned from here on, whatever comes.
        let owned = Owned { pinned: ManuallyDrop::new(pinned), context, pending };
        let address = owned.pinned.address;
        let memory = NonNull::new(address.cast::<T>()).ok_or(Error::HostMemory { bytes })?;
        if !is_aligned(address.addr() as u64, align_of::<T>()) {
            return Err(Error::Misaligned { address: address.addr() as u64, align: align_of::<T>() });
        }
        // SAFETY: memory of so many bytes or more, aligned, that nobody else has; zero bytes are valid elements.
        unsafe { memory.write_bytes(0, len) };
        Ok(Self { memory, len, owned: Some(owned) })
    }

    /// Allocates as many elements as `elements`, and copies them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_slice(context: &Context, elements: &[T]) -> Result<Self> {
        let mut buffer = Self::new(context, elements.len())?;
        buffer.as_mut_slice()?.copy_from_slice(elements);
        Ok(buffer)
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

    /// The host address, which the device can use too.
    #[must_use]
    pub const fn as_raw(&self) -> *mut T {
        self.memory.as_ptr()
    }

    /// The address under which kernels of the buffer's own device reach the elements; 0 if there is none. What they do
    /// there must be done before the elements are looked at and before the buffer is dropped: this crate waits for
    /// its own copies only.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuMemHostGetDevicePointer")]
    pub fn device_address(&self) -> Result<CUdeviceptr_v2> {
        let Some(owned) = &self.owned else { return Ok(0) };
        let functions = owned.context.driver().functions();
        // SAFETY: page-locked memory that this buffer owns.
        owned
            .context
            .with_current(|| unsafe { raw::host::mem_host_get_device_pointer(functions, self.memory.as_ptr().cast()) })
    }

    /// The elements, after waiting for copies that still write them.
    ///
    /// # Errors
    /// Whatever the driver answers to the wait; see [`Error::is_sticky`].
    #[doc(alias = "cuEventSynchronize")]
    pub fn as_slice(&self) -> Result<&[T]> {
        if let Some(owned) = &self.owned {
            owned.wait_unless(Uses::Reads)?;
        }
        // SAFETY: the buffer owns so many valid elements. The device does not write them: a copy that does needs the
        // buffer exclusively, so none can begin while the slice is borrowed, and those that had begun are done.
        Ok(unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.len) })
    }

    /// The elements, after waiting for all copies of this buffer.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice).
    #[doc(alias = "cuEventSynchronize")]
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        if let Some(owned) = &self.owned {
            owned.wait_unless(Uses::Nothing)?;
        }
        // SAFETY: the buffer owns so many valid elements, is borrowed exclusively, and the device is done with it.
        Ok(unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) })
    }
}

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Enqueues a copy of `source` to the device, in the home stream's order, and returns.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::DriverMismatch`] and, where captures are
    /// [expected](crate::RelaxedCaptureMode), [`Error::StreamCapturing`] before anything is enqueued; else whatever the
    /// driver answers.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn copy_from_pinned(&mut self, source: &PinnedBuffer<T>) -> Result<()> {
        ensure_same_len(self.len(), source.len())?;
        let Some(owned) = &source.owned else { return Ok(()) };
        self.ensure_usable()?;
        let (address, bytes) = (self.as_raw(), self.byte_len());
        // SAFETY: the view is valid and exclusive in its home's order; the pinned memory is as long, and `enqueue`
        // keeps it until the copy is done.
        owned.enqueue(self.home(), Uses::Reads, |functions, stream| unsafe {
            raw::memory::memcpy_htod_async(functions, address, source.memory.as_ptr().cast(), bytes, stream)
        })
    }
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// Enqueues a copy to `destination`, in the home stream's order, and returns.
    ///
    /// # Errors
    /// As [`copy_from_pinned`](DeviceSliceMut::copy_from_pinned).
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn copy_to_pinned(&self, destination: &mut PinnedBuffer<T>) -> Result<()> {
        ensure_same_len(destination.len(), self.len())?;
        let Some(owned) = &destination.owned else { return Ok(()) };
        self.ensure_usable()?;
        // SAFETY: the view is valid in its home's order; the pinned memory is as long, borrowed exclusively, and
        // `enqueue` keeps it and hides it until the copy is done.
        owned.enqueue(self.home(), Uses::Writes, |functions, stream| unsafe {
            raw::memory::memcpy_dtoh_async(
                functions,
                destination.memory.as_ptr().cast(),
                self.as_raw(),
                self.byte_len(),
                stream,
            )
        })
    }
}

impl Owned {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `copy` put on `stream`, after the copies of this memory that are pending, and marks its end.
    fn enqueue(
        &self,
        stream: &Stream,
        uses: Uses,
        copy: impl FnOnce(&cuda_sys::Functions, cuda_sys::CUstream) -> Result<()>,
    ) -> Result<()> {
        stream.driver().ensure_same(self.context.driver())?;
        stream.ensure_ordered()?;
        stream.ensure_outside_captures()?;
        let functions = stream.driver().functions();
        let mut pending = self.pending();
        let before = pending.uses;
        match before {
            Uses::Nothing => {}
            Uses::Lost => return Err(Error::OrderLost),
            Uses::Reads | Uses::Writes if pending.stream == stream.serial() => {}
            Uses::Reads | Uses::Writes => {
                // SAFETY: stream and event are live.
                unsafe { raw::stream::stream_wait_event(functions, stream.as_raw(), self.pinned.event) }?
            }
        }
        pending.copies += 1;
        pending.stream = stream.serial();
        let copied = copy(functions, stream.as_raw());
        // SAFETY: as above. Also after a failure: the driver does not promise that a failed call enqueued nothing.
        let marked = unsafe { raw::event::event_record(functions, self.pinned.event, stream.as_raw()) };
        let Err(error) = marked else {
            pending.uses = if before == Uses::Writes { before } else { uses };
            return copied;
        };
        // Nobody is to wait for this thread while it waits for the device, nor while it calls the release hook.
        pending.uses = Uses::Lost;
        drop(pending);
        order::wait_on_host(stream).map_err(|_| error)?;
        self.pending().uses = Uses::Nothing;
        copied
    }

    /// Waits until the device is done with the memory, unless it does no more with it than `harmless`.
    fn wait_unless(&self, harmless: Uses) -> Result<()> {
        // In a forked child the memory may not be there.
        gate::check()?;
        let pending = *self.pending();
        match pending.uses {
            Uses::Nothing => return Ok(()),
            uses if uses == harmless => return Ok(()),
            Uses::Lost => return Err(Error::OrderLost),
            Uses::Reads | Uses::Writes => {
                // SAFETY: the event is live.
                unsafe { raw::event::event_synchronize(self.context.driver().functions(), self.pinned.event) }?;
            }
        }
        let mut now = self.pending();
        if now.copies == pending.copies && now.uses != Uses::Lost {
            now.uses = Uses::Nothing;
        }
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if gate::check().is_err() {
            return;
        }
        if self.pending.get_mut().unwrap_or_else(PoisonError::into_inner).uses == Uses::Lost {
            // Nothing will ever say that the device is done with it.
            release::report(Err(Error::OrderLost));
            return;
        }
        // SAFETY: never used again.
        self.context.parked().park(unsafe { ManuallyDrop::take(&mut self.pinned) });
    }
}

impl Context {
    /// Memory of `bytes` bytes or more that the device does not use.
    fn take_pinned(&self, bytes: usize) -> Result<Memory> {
        gate::check()?;
        let functions = self.driver().functions();
        if let Some(pinned) = self.parked().take(functions, bytes) {
            return Ok(pinned);
        }
        if self.parked().surplus() > 0 {
            self.trim_pinned()?;
        }
        let made = self.with_current(|| {
            // SAFETY: `with_current` makes the context current that is to own both.
            let event = unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }?;
            // SAFETY: as above.
            match unsafe { raw::host::mem_host_alloc(functions, bytes) } {
                Ok(address) => Ok(Memory { address: address.cast(), bytes, event, marked: true }),
                Err(error) => {
                    // SAFETY: the event was just made, and nobody has seen it.
                    release::report(unsafe { raw::event::event_destroy(functions, event) });
                    Err(error)
                }
            }
        });
        made.map_err(|error| match error.code() {
            Some(cuda_sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::HostMemory { bytes },
            _ => error,
        })
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer").field("memory", &self.memory).field("len", &self.len).finish_non_exhaustive()
    }
}
