//! Owned managed memory: a buffer that the host can look into.

use core::{
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, RangeBounds},
    ptr, slice,
};
use std::sync::Arc;

use bytemuck::Pod;

use super::host_pointer;
use crate::{
    Buffer, Context, DefaultLoan, DefaultStream, DefaultStreamKind, DeviceSliceMut, Driver, Error, Loan, Result,
    Stream, StreamHandle,
    buffer::GIVEN_UP,
    host::Memory,
    order, raw, release,
    slice::{byte_len, is_aligned},
};

/// `len` elements of managed memory, at home on one stream, which the host can also look at in place.
///
/// It derefs to [`Buffer`] for all that only reads, and lends exclusive views and loans itself. To look at the elements
/// from the host is to wait for the home stream, and so for all device work that was given the buffer:
/// [`as_host_slice`](Self::as_host_slice), [`as_host_mut_slice`](Self::as_host_mut_slice). While the host looks, the
/// device may read; while the host writes, the buffer can be given no work.
///
/// That needs devices that can use managed memory while the host does
/// ([`Device::concurrent_managed_access`](crate::Device::concurrent_managed_access)); with one that cannot, as on Windows
/// and before Pascal, the host must not touch any of it while *any* kernel runs, which nobody can know here. Then the
/// host is not let to look, and elements are copied.
///
/// Memory comes from a pool of managed memory ([`Buffer::into_managed`], since CUDA 13.0) or from none
/// ([`alloc`](Self::alloc), everywhere). That of a pool is freed in stream order. The other kind cannot be: it goes to
/// the context, which keeps it for the next `alloc`; see [`Context::trim_managed`](crate::Context::trim_managed). `Drop`
/// waits in neither case, unless it drops the context's last owner. What either is told about where to be ([`set_preferred_location`](Self::set_preferred_location)
/// and the like) may stay with memory that is used again, and with its neighbours on the same page.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let mut buffer: ManagedBuffer<u32, &Stream> = ManagedBuffer::alloc(4, &stream)?;
/// buffer.as_host_mut_slice()?.copy_from_slice(&[1, 2, 3, 4]);
/// buffer.prefetch(.., MemLocation::Device(device))?;
/// buffer.slice_mut(..2)?.fill(9)?; // on the device
/// assert_eq!(buffer.as_host_slice()?, [9, 9, 3, 4]); // waits for it
/// # Ok::<(), Error>(())
/// ```
pub struct ManagedBuffer<T: Pod, S: StreamHandle = Arc<Stream>> {
    /// Dropped by hand: what came from no pool is not freed as buffers are. Never lent out exclusively as a whole, since
    /// it must not be exchanged for one of another kind of memory.
    buffer: ManuallyDrop<Buffer<T, S>>,
    /// What came from no pool.
    unpooled: Option<Unpooled>,
    /// A device that the host must not meet in managed memory, if there is one.
    exclusive_device: Option<i32>,
}

struct Unpooled {
    memory: Memory,
    /// Owns the memory, which goes back there.
    context: Context,
}

impl<T: Pod, S: StreamHandle> Buffer<T, S> {
    /// Takes the buffer as managed memory, which it must be: from a pool of managed memory.
    ///
    /// # Errors
    /// [`Error::NotManaged`], or whatever the driver answers; the buffer comes back as it was.
    #[doc(alias = "cuPointerGetAttribute")]
    pub fn into_managed(mut self) -> Result<ManagedBuffer<T, S>, (Error, Self)> {
        self.give_up_if_lent();
        match managed_use(&self) {
            Ok(exclusive_device) => {
                Ok(ManagedBuffer { buffer: ManuallyDrop::new(self), unpooled: None, exclusive_device })
            }
            Err(error) => Err((error, self)),
        }
    }
}

/// Checks that it is managed memory, and finds the device that keeps the host out of it.
fn managed_use<T: Pod, S: StreamHandle>(buffer: &Buffer<T, S>) -> Result<Option<i32>> {
    if buffer.byte_len() == 0 {
        return Ok(None);
    }
    if buffer.as_raw() == 0 {
        return Err(Error::LoanForgotten);
    }
    let driver = buffer.home().driver();
    // SAFETY: the buffer owns the memory, which is live.
    if !unsafe { driver.is_managed(buffer.as_raw()) }? {
        return Err(Error::NotManaged);
    }
    exclusive_device(driver)
}

/// A device without concurrent managed access, if there is one. One is enough: managed memory is everybody's.
fn exclusive_device(driver: Driver) -> Result<Option<i32>> {
    for ordinal in 0..raw::device::device_get_count(driver.functions())? {
        if !crate::Device::from_raw(driver, ordinal).concurrent_managed_access()? {
            return Ok(Some(ordinal));
        }
    }
    Ok(None)
}

impl<T: Pod, S: StreamHandle> ManagedBuffer<T, S> {
    /// Allocates `len` elements that come from no pool, with whatever bytes were there before. The memory is the host's
    /// and every device's from the start; `stream` is its home from then on. Slow (some 10 µs and more, and a wait for the
    /// device where the context keeps [much](crate::Context::trim_managed)), unless memory of an earlier buffer fits.
    ///
    /// # Errors
    /// [`Error::ManagedMemoryUnsupported`], [`Error::SizeOverflow`], [`Error::NotPrimary`] if the stream's context is not
    /// a primary one, [`Error::StreamCapturing`] for the stream of a [`Capture`](crate::Capture); else whatever the driver
    /// answers.
    #[doc(alias = "cuMemAllocManaged")]
    #[doc(alias = "cudaMallocManaged")]
    pub fn alloc(len: usize, stream: S) -> Result<Self> {
        let bytes = byte_len::<T>(len)?;
        if bytes == 0 {
            // SAFETY: no bytes need no memory.
            let buffer = ManuallyDrop::new(unsafe { Buffer::from_raw_parts(0, len, stream) });
            return Ok(Self { buffer, unpooled: None, exclusive_device: None });
        }
        let home = stream.stream();
        home.ensure_not_captured()?;
        home.ensure_ordered()?;
        let device = home.context().device();
        if !device.managed_memory()? {
            return Err(Error::ManagedMemoryUnsupported { device: device.as_raw() });
        }
        let exclusive_device = exclusive_device(home.driver())?;
        let context = home.context().try_clone()?;
        let memory = context.take_managed(bytes)?;
        let address = memory.address.expose_provenance() as u64;
        // SAFETY: memory of so many bytes or more, that nobody else has and no device uses; any stream may, from now on.
        // It is not freed as buffers are: see `drop`. If it is not aligned for `T` it is not handed out.
        let buffer = ManuallyDrop::new(unsafe { Buffer::from_raw_parts(address, len, stream) });
        let this = Self { buffer, unpooled: Some(Unpooled { memory, context }), exclusive_device };
        if is_aligned(address, align_of::<T>()) {
            Ok(this)
        } else {
            Err(Error::Misaligned { address, align: align_of::<T>() })
        }
    }

    /// The elements, for the host to read, after waiting for the home stream. The device may read them meanwhile.
    ///
    /// # Errors
    /// [`Error::ConcurrentManagedAccessUnsupported`] if a device keeps the host out, [`Error::StreamCapturing`],
    /// [`Error::LoanForgotten`]; else whatever the driver answers to the wait; see [`Error::is_sticky`].
    #[doc(alias = "cuStreamSynchronize")]
    pub fn as_host_slice(&self) -> Result<&[T]> {
        let elements = self.wait_for_host()?;
        // SAFETY: so many elements, which the driver keeps at this address for the host too, until the buffer ends. The
        // device does not write them: all that needs the buffer exclusively. None of it can begin while the slice is
        // borrowed, and what had begun was enqueued on the home stream, or fenced before its end, which has been waited
        // for. Devices that must be alone have been ruled out.
        Ok(unsafe { slice::from_raw_parts(elements, self.buffer.len()) })
    }

    /// The elements, for the host to write, after waiting for the home stream.
    ///
    /// # Errors
    /// As [`as_host_slice`](Self::as_host_slice).
    #[doc(alias = "cuStreamSynchronize")]
    pub fn as_host_mut_slice(&mut self) -> Result<&mut [T]> {
        self.buffer.give_up_if_lent();
        let elements = self.wait_for_host()?;
        // SAFETY: as above, and the device does not read them either: no loan is out, the home stream was fenced behind
        // each that has ended, and the buffer is borrowed exclusively.
        Ok(unsafe { slice::from_raw_parts_mut(elements, self.buffer.len()) })
    }

    /// Where the elements are for the host, once the device is done with them.
    fn wait_for_host(&self) -> Result<*mut T> {
        if self.buffer.byte_len() == 0 {
            return Ok(ptr::dangling_mut());
        }
        if let Some(device) = self.exclusive_device {
            return Err(Error::ConcurrentManagedAccessUnsupported { device });
        }
        self.buffer.as_slice().ensure_usable()?;
        let home = self.buffer.home();
        home.ensure_not_capturing()?;
        home.synchronize()?;
        Ok(host_pointer(self.buffer.as_raw()))
    }

    /// An exclusive view of all elements, for the device.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// An exclusive view of the elements of `range`, for the device.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// As [`Buffer::on`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn on<'a>(&'a mut self, stream: &'a Stream) -> Result<Loan<'a, T, S>> {
        self.buffer.on(stream)
    }

    /// As [`Buffer::on_default`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn on_default<'a, K: DefaultStreamKind>(
        &'a mut self,
        stream: &'a DefaultStream<K>,
    ) -> Result<DefaultLoan<'a, T, S, K>> {
        self.buffer.on_default(stream)
    }

    /// As [`Buffer::move_to`].
    ///
    /// # Errors
    /// As there; [`Error::ContextMismatch`] for memory from no pool and a stream of another context than its own.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn move_to<R: StreamHandle>(self, stream: R) -> Result<ManagedBuffer<T, R>, (Error, Self)> {
        let elsewhere = |unpooled: &Unpooled| unpooled.context.as_raw() != stream.stream().context().as_raw();
        if self.buffer.home().driver() == stream.stream().driver() && self.unpooled.as_ref().is_some_and(elsewhere) {
            return Err((Error::ContextMismatch, self));
        }
        let (buffer, unpooled, exclusive_device) = self.into_parts();
        match ManuallyDrop::into_inner(buffer).move_to(stream) {
            Ok(buffer) => Ok(ManagedBuffer { buffer: ManuallyDrop::new(buffer), unpooled, exclusive_device }),
            Err((error, buffer)) => {
                Err((error, Self { buffer: ManuallyDrop::new(buffer), unpooled, exclusive_device }))
            }
        }
    }

    fn into_parts(self) -> (ManuallyDrop<Buffer<T, S>>, Option<Unpooled>, Option<i32>) {
        let mut this = ManuallyDrop::new(self);
        let unpooled = this.unpooled.take();
        // SAFETY: `this` is never used or dropped again.
        (ManuallyDrop::new(unsafe { ManuallyDrop::take(&mut this.buffer) }), unpooled, this.exclusive_device)
    }

    /// Gives the memory back in the home stream's order and says how that went: as [`Buffer::free`] for memory of a pool;
    /// other memory goes to its context, which keeps it for the next [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// Whatever the driver answers, and [`Error::LoanForgotten`]; the memory is then lost.
    #[doc(alias = "cuMemFreeAsync")]
    #[doc(alias = "cuMemFree")]
    pub fn free(self) -> Result<()> {
        let (buffer, unpooled, _) = self.into_parts();
        match unpooled {
            Some(unpooled) => retire(ManuallyDrop::into_inner(buffer), unpooled),
            None => ManuallyDrop::into_inner(buffer).free(),
        }
    }
}

/// Has the context keep the memory, marked with what the device still does with it.
fn retire<T: Pod, S: StreamHandle>(mut buffer: Buffer<T, S>, unpooled: Unpooled) -> Result<()> {
    let is_lent = *buffer.lent.get_mut() != 0;
    // Taken apart: as a buffer it would be freed as memory of a pool is.
    let (_, _, stream) = buffer.into_raw_parts();
    let (home, Unpooled { mut memory, context }) = (stream.stream(), unpooled);
    let functions = context.driver().functions();
    let mut mark = || {
        if is_lent {
            return Err(Error::LoanForgotten);
        }
        home.ensure_ordered()?;
        // An event that becomes part of a graph marks nothing.
        memory.marked = !home.is_capturing()?;
        if !memory.marked {
            return Ok(());
        }
        // SAFETY: the stream is borrowed, hence live; it is of the event's context, or `move_to` would have refused it.
        unsafe { raw::event::event_record(functions, memory.event, home.as_raw()) }
    };
    let marked = match mark() {
        Err(error @ Error::Driver(_)) => order::wait_on_host(home).map_err(|_| error),
        marked => marked,
    };
    match &marked {
        Ok(()) => context.parked_managed().park(memory),
        // The memory is lost, but the event is nobody's.
        // SAFETY: it is owned, and never used again.
        Err(_) => release::report(unsafe { raw::event::event_destroy(functions, memory.event) }),
    }
    marked
}

impl<T: Pod, S: StreamHandle> Drop for ManagedBuffer<T, S> {
    fn drop(&mut self) {
        // SAFETY: never used again.
        let mut buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        if let Some(unpooled) = self.unpooled.take() {
            let lent = *buffer.lent.get_mut();
            let retired = retire(buffer, unpooled);
            // What was given up with a report is not reported again.
            if lent != GIVEN_UP {
                release::report(retired);
            }
        }
    }
}

impl<T: Pod, S: StreamHandle> Deref for ManagedBuffer<T, S> {
    type Target = Buffer<T, S>;

    fn deref(&self) -> &Buffer<T, S> {
        &self.buffer
    }
}

impl<T: Pod, S: StreamHandle> fmt::Debug for ManagedBuffer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedBuffer")
            .field("buffer", &*self.buffer)
            .field("from_pool", &self.unpooled.is_none())
            .finish_non_exhaustive()
    }
}
