//! Imported buffers: memory of another process, released in stream order when dropped.

use core::{
    fmt,
    marker::PhantomData,
    mem::{ManuallyDrop, replace},
    ops::RangeBounds,
    ptr,
};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use super::{
    pool::Shared,
    registry::{Key, Last},
};
use crate::{DeviceSlice, DeviceSliceMut, Error, Result, Stream, StreamHandle, gate, order, raw, release};

/// A buffer of another process, imported from an [`ImportedPool`](super::ImportedPool) and at home on one stream of
/// this one.
///
/// Reading is as with a [`Buffer`](crate::Buffer): through views at home on the stream, fenced where they meet another.
/// Writing is `unsafe`. A reference says nothing about who else has the memory: the exporter has, other processes may,
/// and this one may have imported it twice, on two streams. So an exclusive view is not to be had of right: whoever
/// takes one says that it is exclusive. Reading needs no more than was promised when the buffer was imported.
///
/// `Drop` releases the import: the memory stays the exporter's. What is enqueued on the home stream afterwards comes
/// after the release, which is how the exporter can learn of it (see
/// [`ImportedPool::import`](super::ImportedPool::import)). While the home stream is being captured nothing can be
/// released; the import then stays for ever, and that is a [release failure](crate::release_failures).
pub struct ImportedBuffer<T, S: StreamHandle = Arc<Stream>> {
    /// 0 if there is no element.
    address: CUdeviceptr_v2,
    len: usize,
    stream: S,
    /// `None` if nothing is imported, or it has been released.
    import: Option<Import>,
    _elements: PhantomData<T>,
}

/// One buffer's share of a mapping.
struct Import {
    pool: Arc<Shared>,
    key: Key,
}

impl<T: Pod, S: StreamHandle> ImportedBuffer<T, S> {
    pub(super) const fn empty(len: usize, stream: S) -> Self {
        Self { address: 0, len, stream, import: None, _elements: PhantomData }
    }

    /// Takes over one entry in the pool's book.
    pub(super) const fn new(address: CUdeviceptr_v2, len: usize, stream: S, pool: Arc<Shared>, key: Key) -> Self {
        Self { address, len, stream, import: Some(Import { pool, key }), _elements: PhantomData }
    }

    /// Releases the import in the home stream's order, and says how that went.
    ///
    /// # Errors
    /// Whatever the driver answers; the import then stays for ever.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn free(self) -> Result<()> {
        let mut this = ManuallyDrop::new(self);
        let released = this.release();
        // SAFETY: `this` is never used again; its import has been taken out.
        unsafe { ptr::drop_in_place(&raw mut this.stream) };
        released
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

    /// Number of bytes.
    #[must_use]
    pub const fn byte_len(&self) -> usize {
        // An allocation of that many bytes exists, so the product cannot wrap.
        self.len.wrapping_mul(size_of::<T>())
    }

    /// The device address of the first element in this process; 0 if there is none. Other imports of the same buffer
    /// may have the same.
    #[must_use]
    pub const fn as_raw(&self) -> CUdeviceptr_v2 {
        self.address
    }

    /// The home stream.
    #[must_use]
    pub fn home(&self) -> &Stream {
        self.stream.stream()
    }

    /// The home stream as the buffer holds it.
    #[must_use]
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// A view of all elements, for reading.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: the memory is mapped for as long as the buffer is borrowed. That it is allocated, and that nobody
        // writes it without order, was promised when it was imported.
        unsafe { DeviceSlice::from_raw_parts(self.address, self.len, self.stream.stream()) }
    }

    /// A view of the elements of `range`, for reading.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// A view of all elements, for writing.
    ///
    /// # Safety
    /// What is done through the view is ordered with all other use of these elements: by the exporter, by other
    /// processes, and by other imports in this one. Use of them here on another stream than the home stream is ordered
    /// by fences only if it goes through this buffer's views.
    #[must_use]
    pub unsafe fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: the memory is mapped for as long as the buffer is borrowed, and the caller says that it is used by
        // nobody else meanwhile, as counted in the home stream's order.
        unsafe { DeviceSliceMut::from_raw_parts(self.address, self.len, self.stream.stream()) }
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
}

impl<T, S: StreamHandle> ImportedBuffer<T, S> {
    /// At most one release is ever made: the import is taken out first.
    fn release(&mut self) -> Result<()> {
        match self.import.take() {
            Some(import) => import.release(replace(&mut self.address, 0), self.stream.stream()),
            None => Ok(()),
        }
    }
}

impl Import {
    fn release(self, address: CUdeviceptr_v2, home: &Stream) -> Result<()> {
        // In a forked child the book may be locked by a thread that does not exist there.
        gate::check()?;
        let (book, ends) = (&self.pool.registry, &self.pool.ends);
        // A capture would take the fences, and the pool's own stream with them.
        let (capturing, asked) = match home.is_capturing() {
            Ok(capturing) => (capturing, Ok(())),
            Err(error) => (false, Err(error)),
        };
        let usable = if capturing { Err(Error::StreamCapturing) } else { home.ensure_ordered() };
        if let Err(error) = usable {
            book.lose(&self.key);
            return Err(error);
        }
        let last = match book.leave_if_last(&self.key) {
            Some(last) => Some(last),
            None => match order::give_back(home, ends) {
                Ok(()) => book.leave(&self.key),
                Err(error) => {
                    book.lose(&self.key);
                    return Err(error);
                }
            },
        };
        match last {
            Some(last) => self.free(&last, address, home).and(asked),
            None => asked,
        }
    }

    /// Frees the mapping on `home`, after all that other buffers were used for, and has the pool's own stream wait for
    /// that.
    fn free(&self, last: &Last, address: CUdeviceptr_v2, home: &Stream) -> Result<()> {
        let ends = &self.pool.ends;
        let freed = if last.after_others { order::give_back(ends, home) } else { Ok(()) }.and_then(|()| {
            let functions = home.driver().functions();
            // SAFETY: the mapping is this pool's and nobody else uses it: the last buffer leaves, and all use through
            // others comes before what `home` gets now. The gate has been asked.
            let free = || unsafe { raw::memory::mem_free_async(functions, address, home.as_raw()) };
            Ok(raw::stream::relaxed(functions, free)?)
        });
        let known = freed.and_then(|()| order::give_back(home, ends));
        self.pool.registry.freed(&self.key, known.is_ok());
        known
    }
}

impl<T, S: StreamHandle> Drop for ImportedBuffer<T, S> {
    fn drop(&mut self) {
        release::report(self.release());
    }
}

impl<T, S: StreamHandle> fmt::Debug for ImportedBuffer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedBuffer")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .field("home", &self.stream.stream().as_raw())
            .finish()
    }
}
