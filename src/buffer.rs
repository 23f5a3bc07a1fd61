//! Buffers: owned device memory, freed in stream order when dropped.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ops::RangeBounds, ptr};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use crate::{
    DeviceSlice, DeviceSliceMut, Error, PinnedBuffer, Result, Stream, StreamHandle, gate, raw, release,
    slice::{byte_len, cast_len, is_aligned},
    sync::atomic::AtomicUsize,
};

/// `len` elements of device memory, allocated from a pool and at home on one stream.
///
/// Everything done with the buffer is enqueued on its home stream, and so is its release: `Drop` is one call that
/// waits for nothing, and memory is reused only after the work that was enqueued before. `S` says how the buffer holds
/// the stream: `&Stream` costs nothing, [`Arc<Stream>`](Arc) lets the buffer be stored anywhere.
///
/// Elements are plain data ([`Pod`]), so memory that was never written can be read without harm. The buffer's device
/// address may be passed to kernels and libraries with [`as_raw`](Self::as_raw); what they do with it must be ordered
/// with the home stream.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// use std::sync::Arc;
///
/// let stream = Arc::new(Stream::new(&context)?);
/// let pool = MemPool::new(&device)?;
///
/// // Borrows its stream: nothing is counted.
/// let mut counts: Buffer<u32, &Stream> = pool.alloc(1024, &*stream)?;
/// counts.fill(7)?;
/// // Shares its stream: can be stored anywhere.
/// let mut kept: Buffer<u32> = pool.alloc_zeroed(1024, Arc::clone(&stream))?;
/// kept.slice_mut(..512)?.copy_from(counts.slice(512..)?)?;
/// assert_eq!(kept.slice(510..514)?.to_vec()?, [7, 7, 0, 0]);
/// # Ok::<(), Error>(())
/// ```
pub struct Buffer<T, S: StreamHandle = Arc<Stream>> {
    /// 0 if nothing was allocated because there is nothing to hold.
    pub(crate) address: CUdeviceptr_v2,
    pub(crate) len: usize,
    stream: S,
    /// Loans to other streams that have not been returned. Once the buffer can be used exclusively again, these are
    /// loans that were forgotten.
    pub(crate) lent: AtomicUsize,
    _elements: PhantomData<T>,
}

impl<T: Pod, S: StreamHandle> Buffer<T, S> {
    /// Takes over the allocation at `address`, which holds `len` elements; `address` 0 owns nothing.
    ///
    /// # Safety
    /// Unless it is 0, `address` must be a live stream-ordered allocation of at least `len` elements, aligned for `T`,
    /// which the caller owns and which is allocated from now on in the order of `stream`, on which all its use by
    /// others is done. If `len` elements are more than no bytes, `address` must not be 0.
    #[must_use]
    #[inline]
    pub const unsafe fn from_raw_parts(address: CUdeviceptr_v2, len: usize, stream: S) -> Self {
        Self { address, len, stream, lent: AtomicUsize::new(0), _elements: PhantomData }
    }

    /// Gives up the allocation: its address, its number of elements and its home stream. The address is 0 if there
    /// is nothing to free, or if the memory was given up because a loan was forgotten.
    #[must_use = "the memory stays allocated"]
    #[inline]
    pub fn into_raw_parts(mut self) -> (CUdeviceptr_v2, usize, S) {
        self.give_up_if_lent();
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again.
        (this.address, this.len, unsafe { ptr::read(&raw const this.stream) })
    }

    /// Frees the memory in the home stream's order and says how that went. It is freed at most once, whatever the
    /// answer. While the home stream is being captured it waits: the memory is freed when the stream is next used, or
    /// dropped, after that.
    ///
    /// # Errors
    /// Whatever the driver answers; the memory is then lost.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn free(self) -> Result<()> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so this is its only release.
        let released = unsafe { this.release() };
        // SAFETY: `this` is never used again.
        unsafe { ptr::drop_in_place(&raw mut this.stream) };
        released
    }

    /// Number of elements.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of bytes.
    #[must_use]
    #[inline]
    pub const fn byte_len(&self) -> usize {
        // An allocation of that many bytes exists, so the product cannot wrap.
        self.len.wrapping_mul(size_of::<T>())
    }

    /// The device address of the first element, for kernels and other libraries; 0 if nothing was allocated because
    /// there is nothing to hold, or if the memory was given up (see [`Error::LoanForgotten`]).
    #[must_use]
    #[inline]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.address
    }

    /// The home stream.
    #[must_use]
    #[inline]
    pub fn home(&self) -> &Stream {
        self.stream.stream()
    }

    /// The home stream as the buffer holds it.
    #[must_use]
    #[inline]
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// A shared view of all elements.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: the buffer owns the memory and is borrowed for as long as the view lives.
        unsafe { DeviceSlice::from_raw_parts(self.address, self.len, self.stream.stream()) }
    }

    /// An exclusive view of all elements.
    #[must_use]
    #[inline]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.give_up_if_lent();
        // SAFETY: the buffer owns the memory and is borrowed exclusively for as long as the view lives.
        unsafe { DeviceSliceMut::from_raw_parts(self.address, self.len, self.stream.stream()) }
    }

    /// A shared view of the elements of `range`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    #[inline]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// An exclusive view of the elements of `range`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    #[inline]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.as_mut_slice().slice(range)
    }

    /// See [`DeviceSlice::copy_to_host`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        self.as_slice().copy_to_host(destination)
    }

    /// See [`DeviceSlice::to_vec`].
    ///
    /// # Errors
    /// As there.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// See [`DeviceSliceMut::copy_from_host`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.as_mut_slice().copy_from_host(source)
    }

    /// See [`DeviceSliceMut::copy_from_pinned`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_from_pinned(&mut self, source: &PinnedBuffer<T>) -> Result<()> {
        self.as_mut_slice().copy_from_pinned(source)
    }

    /// See [`DeviceSlice::copy_to_pinned`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_to_pinned(&self, destination: &mut PinnedBuffer<T>) -> Result<()> {
        self.as_slice().copy_to_pinned(destination)
    }

    /// See [`DeviceSliceMut::copy_from`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn copy_from(&mut self, source: DeviceSlice<'_, T>) -> Result<()> {
        self.as_mut_slice().copy_from(source)
    }

    /// See [`DeviceSliceMut::fill`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.as_mut_slice().fill(value)
    }

    /// See [`DeviceSliceMut::fill_zero`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn fill_zero(&mut self) -> Result<()> {
        self.as_mut_slice().fill_zero()
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// [`Error::Misaligned`] or [`Error::UnevenCast`] if they are not whole, aligned elements of it, with the buffer
    /// as it was.
    pub fn cast<U: Pod>(mut self) -> Result<Buffer<U, S>, (Error, Self)> {
        self.give_up_if_lent();
        if self.address == 0 && self.byte_len() != 0 {
            return Err((Error::LoanForgotten, self));
        }
        match cast_len::<T, U>(self.address, self.len) {
            Ok(len) => {
                let (address, _, stream) = self.into_raw_parts();
                // SAFETY: the same allocation, of as many bytes; any bytes are valid elements of both types.
                Ok(unsafe { Buffer::from_raw_parts(address, len, stream) })
            }
            Err(error) => Err((error, self)),
        }
    }
}

impl<T, S: StreamHandle> Buffer<T, S> {
    /// Called where the buffer is used exclusively: a loan that has not been returned by now never will be, so nothing
    /// orders what the other stream does, and the memory is not to be touched any more.
    #[inline(always)]
    pub(crate) fn give_up_if_lent(&mut self) {
        if *self.lent.get_mut() != 0 {
            self.address = 0;
        }
    }

    /// Whether loans are out, or were when they could no longer be returned.
    #[cfg(feature = "launch")]
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.load(crate::sync::atomic::Ordering::Relaxed) != 0
    }

    /// # Safety
    /// At most once for a buffer, and the memory must not be used afterwards.
    #[inline(always)]
    unsafe fn release(&mut self) -> Result<()> {
        if *self.lent.get_mut() != 0 {
            return Err(Error::LoanForgotten);
        }
        if self.address == 0 {
            return Ok(());
        }
        let home = self.stream.stream();
        if !gate::is_open() {
            // SAFETY: the buffer owns the allocation, and the caller says that this is its end.
            return unsafe { home.free_warily(self.address) };
        }
        // SAFETY: the buffer owns the allocation, which was made or ordered on this stream, as was all its use; the
        // caller says that this is its end.
        match unsafe { raw::memory::mem_free_async(home.driver().functions(), self.address, home.as_raw()) } {
            Ok(()) => Ok(()),
            // SAFETY: as above; the driver has refused.
            Err(error) => unsafe { home.defer_free(self.address, error) },
        }
    }
}

impl<T, S: StreamHandle> Drop for Buffer<T, S> {
    #[inline]
    fn drop(&mut self) {
        let lent = *self.lent.get_mut();
        // SAFETY: `free` and `into_raw_parts` prevent this drop, so it is the only release.
        if let Err(error) = unsafe { self.release() } {
            not_released(lent, error);
        }
    }
}

/// By value, so that a buffer need not be in memory for it.
#[cold]
#[inline(never)]
fn not_released(lent: usize, error: Error) {
    // What was given up with a report is not reported again, and in a forked child nothing is lost.
    if lent != GIVEN_UP && gate::check().is_ok() {
        release::report(Err(error));
    }
}

impl<T, S: StreamHandle> fmt::Debug for Buffer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .field("home", &self.stream.stream().as_raw())
            .finish()
    }
}

/// Checks the size of `len` elements and, unless they are none, has `allocate` find that many bytes.
#[inline(always)]
pub(crate) fn allocate<T: Pod, S: StreamHandle>(
    len: usize,
    stream: S,
    allocate: impl FnOnce(usize, &Stream) -> Result<CUdeviceptr_v2>,
) -> Result<Buffer<T, S>> {
    let bytes = byte_len::<T>(len)?;
    let address = if bytes == 0 { nothing() } else { allocate(bytes, stream.stream())? };
    // SAFETY: fresh memory of that size, allocated on this stream. The driver aligns it for every ordinary type; where
    // that does not suffice the buffer is not handed out.
    let buffer = unsafe { Buffer::from_raw_parts(address, len, stream) };
    if align_of::<T>() > DRIVER_ALIGN && !is_aligned(address, align_of::<T>()) {
        return Err(Error::Misaligned { address, align: align_of::<T>() });
    }
    Ok(buffer)
}

/// The address of no memory; apart, since it is seldom asked for.
#[cold]
#[inline(never)]
const fn nothing() -> CUdeviceptr_v2 {
    0
}

/// In place of a count of loans: the memory was given up, and that was reported.
pub(crate) const GIVEN_UP: usize = usize::MAX;

/// What CUDA promises of every allocation's alignment.
const DRIVER_ALIGN: usize = 256;

const _: () = {
    assert!(size_of::<Buffer<u8, &Stream>>() <= 32 || cfg!(cupool_shuttle));
    assert!(size_of::<Buffer<f64, Arc<Stream>>>() == size_of::<Buffer<u8, Arc<Stream>>>());
};
