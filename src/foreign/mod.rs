//! Buffers over memory that somebody else allocated, and that an owner of any type keeps alive.

pub(crate) mod retired;

use core::{
    fmt,
    mem::{ManuallyDrop, forget},
    ptr,
};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use crate::{
    Buffer, DeviceSlice, DeviceSliceMut, Error, Loan, Result, SharedLoan, Stream, StreamHandle,
    buffer::GIVEN_UP,
    gate, release,
    slice::{byte_len, is_aligned},
};
use retired::{Marker, guarded};

/// `len` elements of device memory that another library allocated, at home on one stream of ours.
///
/// It is used as a [`Buffer`] is, but its memory is not freed here: an owner, of whatever type, keeps the memory, and
/// is dropped once the device is done with it. `Drop` waits for nothing: it marks the end of the home stream's work, and
/// the owner stays with the context until that mark is passed ([`Context::drop_retired`](crate::Context::drop_retired)
/// waits for it). An owner that holds on to the context itself, as a [`Buffer`] does, keeps it alive until then.
///
/// A panic in the owner's `Drop` is caught and counted as a [release failure](crate::release_failures). If the end of
/// the work can neither be marked nor waited for, or if the home stream is being captured at that time, the owner is
/// leaked, which is counted too.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let stream = Stream::new(&context)?;
/// let pool = MemPool::new(&device)?;
/// // Stands for another library's array.
/// let theirs = pool.alloc_zeroed::<f32, _>(100, std::sync::Arc::new(Stream::new(&context)?))?;
/// stream.wait_for(theirs.home())?;
/// let (address, len) = (theirs.as_raw(), theirs.len());
/// // SAFETY: the memory is theirs, who use it no more, and the stream waits for what they did with it.
/// let mut ours = unsafe { ForeignBuffer::<f32, _, _>::new(address, len, &stream, theirs) }.map_err(|(error, _)| error)?;
/// ours.as_mut_slice().fill(1.0)?;
/// assert_eq!(ours.to_vec()?, [1.0; 100]);
/// drop(ours); // `theirs` is dropped when `stream` has got so far
/// context.drop_retired()?;
/// # Ok::<(), Error>(())
/// ```
pub struct ForeignBuffer<T: Pod, O, S: StreamHandle = Arc<Stream>> {
    /// Never dropped: the memory is not a stream-ordered allocation of ours.
    buffer: ManuallyDrop<Buffer<T, S>>,
    owner: ManuallyDrop<O>,
    end: End<O>,
}

/// What becomes of an owner.
enum End<O> {
    /// It is dropped after the work that the marker marks. The function is known where the owner's type is known to be
    /// one that can wait, on whatever thread.
    Later(Marker, fn(O) -> Box<dyn Send>),
    /// It is called at once, with the stream in whose order the memory is to be released.
    InOrder(fn(O, &Stream)),
    /// It is dropped at once, as there is no memory.
    Now,
}

impl<T: Pod, O: Send + 'static, S: StreamHandle> ForeignBuffer<T, O, S> {
    /// Takes the `len` elements at `address`, which live as long as `owner`, in the order of `stream`.
    ///
    /// # Errors
    /// [`Error::NullAddress`], [`Error::Misaligned`] and [`Error::SizeOverflow`] before any call; else whatever the
    /// driver answers. The owner comes back.
    ///
    /// # Safety
    /// `len` elements at `address` must be memory that the device of `stream` can use, and that lives until `owner` is
    /// dropped, whatever is done with it by shared reference meanwhile. Nobody else may use it until then, except in
    /// `stream`'s order; what was done with it before must be ordered before what `stream` gets from now on.
    #[doc(alias = "cuEventCreate")]
    pub unsafe fn new(address: CUdeviceptr_v2, len: usize, stream: S, owner: O) -> Result<Self, (Error, O)> {
        let end = match ensure_valid::<T>(address, len, stream.stream()) {
            Ok(0) => Ok(End::Now),
            Ok(_) => stream.stream().context().marker().map(|marker| End::Later(marker, |owner| Box::new(owner))),
            Err(error) => Err(error),
        };
        match end {
            // SAFETY: as the caller says.
            Ok(end) => Ok(unsafe { Self::with_end(address, len, stream, owner, end) }),
            Err(error) => Err((error, owner)),
        }
    }
}

impl<T: Pod, F: FnOnce(&Stream), S: StreamHandle> ForeignBuffer<T, F, S> {
    /// Takes the `len` elements at `address`, for an owner that can release memory in a stream's order itself.
    ///
    /// When the buffer is dropped, `release` is called with the home stream, which has been given all the work on the
    /// memory by then: what `release` enqueues there comes after that. It is never called if that order was lost, nor
    /// in a forked child.
    ///
    /// # Errors
    /// [`Error::NullAddress`], [`Error::Misaligned`] and [`Error::SizeOverflow`]; no call is made. `release` comes back.
    ///
    /// # Safety
    /// As [`new`](Self::new), with the memory living until `release` lets go of it, which it must do in the order of the
    /// stream that it is called with.
    pub unsafe fn with_release(address: CUdeviceptr_v2, len: usize, stream: S, release: F) -> Result<Self, (Error, F)> {
        match ensure_valid::<T>(address, len, stream.stream()) {
            // SAFETY: as the caller says.
            Ok(_) => Ok(unsafe { Self::with_end(address, len, stream, release, End::InOrder(|f, home| f(home))) }),
            Err(error) => Err((error, release)),
        }
    }
}

impl<T: Pod, O, S: StreamHandle> ForeignBuffer<T, O, S> {
    /// # Safety
    /// As [`new`](Self::new); address and length must have been found valid.
    unsafe fn with_end(address: CUdeviceptr_v2, len: usize, stream: S, owner: O, end: End<O>) -> Self {
        let address = if len == 0 || size_of::<T>() == 0 { 0 } else { address };
        // SAFETY: the memory can be used in the stream's order, as the caller says; the buffer never frees it.
        let buffer = unsafe { Buffer::from_raw_parts(address, len, stream) };
        Self { buffer: ManuallyDrop::new(buffer), owner: ManuallyDrop::new(owner), end }
    }

    /// Waits on the host until the device is done with the memory, and gives the owner back.
    ///
    /// # Errors
    /// [`Error::LoanForgotten`], [`Error::OrderLost`] and [`Error::StreamCapturing`] before anything is waited for; else
    /// whatever the driver answers. The buffer comes back as it was.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn into_owner(mut self) -> Result<O, (Error, Self)> {
        self.buffer.give_up_if_lent();
        let waited = match self.buffer.byte_len() {
            0 => Ok(()),
            _ if self.buffer.address == 0 => Err(Error::LoanForgotten),
            _ => {
                let home = self.home();
                home.ensure_ordered().and_then(|()| home.ensure_not_capturing()).and_then(|()| home.synchronize())
            }
        };
        if let Err(error) = waited {
            return Err((error, self));
        }
        let (buffer, owner, end) = self.into_parts();
        let (_, _, stream) = buffer.into_raw_parts();
        if let End::Later(marker, _) = end {
            stream.stream().context().retired().put_back(marker);
        }
        Ok(owner)
    }

    /// Who keeps the memory.
    #[must_use]
    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Number of bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.buffer.byte_len()
    }

    /// The device address of the first element, to be used in the home stream's order; 0 if there is none.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr_v2 {
        self.buffer.as_raw()
    }

    /// The home stream.
    #[must_use]
    pub fn home(&self) -> &Stream {
        self.buffer.home()
    }

    /// A shared view of all elements.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.buffer.as_slice()
    }

    /// An exclusive view of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// See [`Buffer::on`].
    ///
    /// # Errors
    /// As there.
    pub fn on<'a>(&'a mut self, stream: &'a Stream) -> Result<Loan<'a, T, S>> {
        self.buffer.on(stream)
    }

    /// See [`Buffer::read_on`].
    ///
    /// # Errors
    /// As there.
    pub fn read_on<'a>(&'a self, stream: &'a Stream) -> Result<SharedLoan<'a, T, S>> {
        self.buffer.read_on(stream)
    }

    /// See [`DeviceSlice::to_vec`].
    ///
    /// # Errors
    /// As there.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.buffer.to_vec()
    }

    /// Everything that the buffer consists of, without its end.
    fn into_parts(self) -> (Buffer<T, S>, O, End<O>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again.
        unsafe {
            (
                ManuallyDrop::into_inner(ptr::read(&raw const this.buffer)),
                ManuallyDrop::into_inner(ptr::read(&raw const this.owner)),
                ptr::read(&raw const this.end),
            )
        }
    }
}

impl<T: Pod, O, S: StreamHandle> Drop for ForeignBuffer<T, O, S> {
    fn drop(&mut self) {
        let lent = *self.buffer.lent.get_mut();
        // SAFETY: this value ends here, so none of them is used again.
        let (buffer, owner, end) = unsafe {
            (ManuallyDrop::take(&mut self.buffer), ManuallyDrop::take(&mut self.owner), ptr::read(&raw const self.end))
        };
        // The memory is not ours to free.
        let (_, _, stream) = buffer.into_raw_parts();
        let home = stream.stream();
        let usable = if lent == 0 { home.ensure_ordered() } else { gate::check().and(Err(Error::LoanForgotten)) };
        match (end, usable) {
            (End::Now, Ok(())) => guarded(|| drop(owner)),
            (End::InOrder(release), Ok(())) => guarded(|| release(owner, home)),
            (End::Later(marker, boxed), Ok(())) => home.context().retired().retire(home, marker, boxed(owner)),
            (end, Err(error)) => {
                forget(owner);
                if let End::Later(marker, _) = end {
                    home.context().retired().put_back(marker);
                }
                // What was given up with a report is not reported again.
                if lent != GIVEN_UP {
                    release::report(Err(error));
                }
            }
        }
    }
}

impl<T: Pod, O, S: StreamHandle> fmt::Debug for ForeignBuffer<T, O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignBuffer").field("buffer", &*self.buffer).finish_non_exhaustive()
    }
}

/// The number of bytes, of memory that can be there.
fn ensure_valid<T>(address: CUdeviceptr_v2, len: usize, home: &Stream) -> Result<usize> {
    home.ensure_not_captured()?;
    let bytes = byte_len::<T>(len)?;
    if bytes == 0 {
        return Ok(0);
    }
    if address == 0 {
        return Err(Error::NullAddress);
    }
    if !is_aligned(address, align_of::<T>()) {
        return Err(Error::Misaligned { address, align: align_of::<T>() });
    }
    match address.checked_add(bytes as u64) {
        Some(_) => Ok(bytes),
        None => Err(Error::SizeOverflow { len, size: size_of::<T>() }),
    }
}
