//! Lending a buffer to another stream: to one exclusively, to several for reading, or for good.
//!
//! A loan's stream first waits for the home stream; when the loan ends, the home stream waits for it. The host waits
//! for neither. A loan that is forgotten (`mem::forget`) leaves nothing that orders the other stream's work, and one
//! whose end fails does the same. The memory is given up then: it is never freed, and whatever is tried with the buffer
//! answers [`Error::LoanForgotten`].

use core::sync::atomic::Ordering;

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use crate::{
    Buffer, DeviceSlice, DeviceSliceMut, Error, Result, Stream, StreamHandle, buffer::GIVEN_UP, order, release,
};

impl<T: Pod, S: StreamHandle> Buffer<T, S> {
    /// Lends the buffer to `stream` for exclusive use, until the loan is dropped.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::DriverMismatch`]. The buffer is as it was then.
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn on<'a>(&'a mut self, stream: &'a Stream) -> Result<Loan<'a, T, S>> {
        self.give_up_if_lent();
        self.admit(stream)?;
        let (address, len) = self.lend_out();
        Ok(Loan { buffer: self, address, len, stream })
    }

    /// Lends the buffer to `stream` for reading, until the loan is dropped. There can be several such loans at once,
    /// and the buffer can be read on its home stream meanwhile.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn read_on<'a>(&'a self, stream: &'a Stream) -> Result<SharedLoan<'a, T, S>> {
        self.admit(stream)?;
        self.count_reader();
        Ok(SharedLoan { buffer: self, stream })
    }

    /// Makes `stream` the buffer's home: it waits for the old one, which is not needed any more. The buffer comes back
    /// as it was if that fails.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn move_to<R: StreamHandle>(mut self, stream: R) -> Result<Buffer<T, R>, (Error, Self)> {
        self.give_up_if_lent();
        if let Err(error) = self.admit(stream.stream()) {
            return Err((error, self));
        }
        let (address, len, _) = self.into_raw_parts();
        // SAFETY: the same allocation; all its use so far comes before what the new home gets from now on.
        Ok(unsafe { Buffer::from_raw_parts(address, len, stream) })
    }

    /// Makes `stream` wait for the home stream; memory that is not there needs no order.
    #[inline]
    pub(crate) fn admit(&self, stream: &Stream) -> Result<()> {
        if self.address == 0 {
            return self.admit_nothing(stream);
        }
        self.home().ensure_ordered()?;
        order::fence(self.home(), stream)
    }

    #[cold]
    fn admit_nothing(&self, stream: &Stream) -> Result<()> {
        self.home().driver().ensure_same(stream.driver())?;
        if self.byte_len() == 0 { Ok(()) } else { Err(Error::LoanForgotten) }
    }

    /// Leaves the buffer empty for an exclusive loan, which has address and length until [`take_back`](Self::take_back):
    /// what is forgotten is not freed.
    #[inline]
    pub(crate) fn lend_out(&mut self) -> (CUdeviceptr_v2, usize) {
        let address = core::mem::take(&mut self.address);
        *self.lent.get_mut() = usize::from(address != 0);
        (address, self.len)
    }

    /// Ends an exclusive loan of the memory at `address`, whose return to the home stream's order went as told.
    #[inline]
    pub(crate) fn take_back(&mut self, address: CUdeviceptr_v2, returned: Result<()>) {
        match returned {
            Ok(()) => {
                self.address = address;
                *self.lent.get_mut() = 0;
            }
            Err(error) => {
                *self.lent.get_mut() = GIVEN_UP;
                release::report(Err(error));
            }
        }
    }

    /// Notes a loan for reading, until [`discount_reader`](Self::discount_reader).
    #[inline]
    pub(crate) fn count_reader(&self) {
        if self.address != 0 {
            self.lent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends a loan for reading, if there is memory: `give_back` has the home stream wait for the reader. Should that
    /// fail, the loan counts on, so that the memory is given up when the buffer is next used exclusively.
    #[inline]
    pub(crate) fn discount_reader(&self, give_back: impl FnOnce(CUdeviceptr_v2) -> Result<()>) {
        if self.address == 0 {
            return;
        }
        match give_back(self.address) {
            Ok(()) => {
                self.lent.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => release::report(Err(error)),
        }
    }
}

/// Makes `home` wait for `stream`, which has had the memory at `address`; fails if the memory must be given up.
#[inline]
pub(crate) fn returned(address: CUdeviceptr_v2, stream: &Stream, home: &Stream) -> Result<()> {
    if address == 0 {
        return Ok(());
    }
    match stream.ensure_ordered().and_then(|()| order::give_back(stream, home)) {
        Ok(()) => Ok(()),
        Err(error) => not_returned(error),
    }
}

/// Where the driver is shut down there is nothing to return to.
#[cold]
#[inline(never)]
fn not_returned(error: Error) -> Result<()> {
    if release::is_over(&error) { Ok(()) } else { Err(error) }
}

/// A buffer in the hands of another stream, exclusively. Dropping it gives the buffer back.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// let (home, other) = (Stream::new(&context)?, Stream::new(&context)?);
/// let pool = MemPool::new(&device)?;
/// let mut buffer = pool.alloc::<u32, _>(4, &home)?;
/// let mut loan = buffer.on(&other)?; // `other` waits for `home`
/// loan.as_mut_slice().fill(9)?;
/// drop(loan); // `home` waits for `other`
/// assert_eq!(buffer.to_vec()?, [9; 4]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Loan<'a, T: Pod, S: StreamHandle> {
    /// Empty for as long as the loan lasts.
    buffer: &'a mut Buffer<T, S>,
    address: CUdeviceptr_v2,
    len: usize,
    stream: &'a Stream,
}

impl<T: Pod, S: StreamHandle> Loan<'_, T, S> {
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

    /// The device address of the first element, to be used in the order of the loan's stream.
    #[must_use]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.address
    }

    /// A shared view, at home on the loan's stream.
    #[must_use]
    pub const fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: the buffer's memory, which this stream may use for as long as the loan lasts.
        unsafe { DeviceSlice::from_raw_parts(self.address, self.len, self.stream) }
    }

    /// An exclusive view, at home on the loan's stream.
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: the buffer's memory, which this stream alone may use for as long as the loan lasts.
        unsafe { DeviceSliceMut::from_raw_parts(self.address, self.len, self.stream) }
    }
}

impl<T: Pod, S: StreamHandle> Drop for Loan<'_, T, S> {
    #[inline]
    fn drop(&mut self) {
        let returned = returned(self.address, self.stream, self.buffer.home());
        self.buffer.take_back(self.address, returned);
    }
}

/// A buffer that another stream may read. Dropping it ends the loan.
#[derive(Debug)]
pub struct SharedLoan<'a, T: Pod, S: StreamHandle> {
    buffer: &'a Buffer<T, S>,
    stream: &'a Stream,
}

impl<T: Pod, S: StreamHandle> SharedLoan<'_, T, S> {
    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The device address of the first element, to be read in the order of the loan's stream.
    #[must_use]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.buffer.as_raw()
    }

    /// A shared view, at home on the loan's stream.
    #[must_use]
    pub const fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: the buffer's memory, which this stream may read for as long as the loan lasts.
        unsafe { DeviceSlice::from_raw_parts(self.buffer.as_raw(), self.buffer.len(), self.stream) }
    }
}

impl<T: Pod, S: StreamHandle> Drop for SharedLoan<'_, T, S> {
    #[inline]
    fn drop(&mut self) {
        self.buffer.discount_reader(|address| returned(address, self.stream, self.buffer.home()));
    }
}
