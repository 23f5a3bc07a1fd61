//! Lending a buffer to a default stream, with the same promises as to any other (see `lend`).
//!
//! A loan here has no views: what is enqueued through them would need the context to be current. It has the address,
//! for the libraries that work on the default stream.

use core::fmt;

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use crate::{Buffer, DefaultStream, DefaultStreamKind, Result, Stream, StreamHandle, lend::returned, release};

impl<T: Pod, S: StreamHandle> Buffer<T, S> {
    /// Lends the buffer to a default stream for exclusive use, until the loan is dropped: that stream waits for the
    /// home stream now, and the home stream for it then. The host waits for neither.
    ///
    /// # Errors
    /// As [`on`](Self::on). The buffer is as it was then.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn on_default<'a, K: DefaultStreamKind>(
        &'a mut self,
        stream: &'a DefaultStream<K>,
    ) -> Result<DefaultLoan<'a, T, S, K>> {
        self.give_up_if_lent();
        self.admit_default(stream)?;
        let (address, len) = self.lend_out();
        Ok(DefaultLoan { buffer: self, address, len, stream })
    }

    /// Lends the buffer to a default stream for reading, until the loan is dropped. There can be several such loans at
    /// once, and the buffer can be read on its home stream meanwhile.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn read_on_default<'a, K: DefaultStreamKind>(
        &'a self,
        stream: &'a DefaultStream<K>,
    ) -> Result<SharedDefaultLoan<'a, T, S, K>> {
        self.admit_default(stream)?;
        self.count_reader();
        Ok(SharedDefaultLoan { buffer: self, stream })
    }

    /// Makes no context current where nothing is to be ordered.
    fn admit_default<K: DefaultStreamKind>(&self, stream: &DefaultStream<K>) -> Result<()> {
        if self.byte_len() == 0 {
            return self.home().driver().ensure_same(stream.driver());
        }
        stream.inside(|stream| self.admit(stream))
    }
}

/// Makes `home` wait for the default stream, which has had the memory at `address`; fails if the memory must be given
/// up.
fn returned_by<K: DefaultStreamKind>(address: CUdeviceptr_v2, stream: &DefaultStream<K>, home: &Stream) -> Result<()> {
    if address == 0 {
        return Ok(());
    }
    match stream.inside(|stream| returned(address, stream, home)) {
        // The context is gone, and with it all that could use the memory.
        Err(error) if release::is_over(&error) => Ok(()),
        // It may have been the context that could not be had.
        Err(error) => stream.context().synchronize().map_err(|_| error),
        returned => returned,
    }
}

/// A buffer in the hands of a default stream, exclusively. Dropping it gives the buffer back.
pub struct DefaultLoan<'a, T: Pod, S: StreamHandle, K: DefaultStreamKind> {
    /// Empty for as long as the loan lasts.
    buffer: &'a mut Buffer<T, S>,
    address: CUdeviceptr_v2,
    len: usize,
    stream: &'a DefaultStream<K>,
}

impl<T: Pod, S: StreamHandle, K: DefaultStreamKind> DefaultLoan<'_, T, S, K> {
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

    /// The device address of the first element, to be used in the order of the default stream.
    #[must_use]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.address
    }
}

impl<T: Pod, S: StreamHandle, K: DefaultStreamKind> Drop for DefaultLoan<'_, T, S, K> {
    fn drop(&mut self) {
        let returned = returned_by(self.address, self.stream, self.buffer.home());
        self.buffer.take_back(self.address, returned);
    }
}

impl<T: Pod, S: StreamHandle, K: DefaultStreamKind> fmt::Debug for DefaultLoan<'_, T, S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultLoan")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// A buffer that a default stream may read. Dropping it ends the loan.
pub struct SharedDefaultLoan<'a, T: Pod, S: StreamHandle, K: DefaultStreamKind> {
    buffer: &'a Buffer<T, S>,
    stream: &'a DefaultStream<K>,
}

impl<T: Pod, S: StreamHandle, K: DefaultStreamKind> SharedDefaultLoan<'_, T, S, K> {
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

    /// The device address of the first element, to be read in the order of the default stream.
    #[must_use]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.buffer.as_raw()
    }
}

impl<T: Pod, S: StreamHandle, K: DefaultStreamKind> Drop for SharedDefaultLoan<'_, T, S, K> {
    fn drop(&mut self) {
        self.buffer.discount_reader(|address| returned_by(address, self.stream, self.buffer.home()));
    }
}

impl<T: Pod, S: StreamHandle, K: DefaultStreamKind> fmt::Debug for SharedDefaultLoan<'_, T, S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedDefaultLoan").field("buffer", &self.buffer).field("stream", &self.stream).finish()
    }
}
