//! Pools exported to and imported from other processes.

use core::fmt;
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_sys::{CUdeviceptr_v2, CUmemAllocationHandleType, CUmemoryPool, CUresult};

use super::{
    handle::{Reader, Writer},
    imported::ImportedBuffer,
    pointer::{ExportedPointer, not_shareable},
    registry::{Entry, Key, Registry},
};
use crate::{
    Context, Device, Driver, Error, MemPool, Result, Stream, StreamHandle, foreign::retired::Marker, gate, raw,
    raw::ipc::HANDLE_LEN, release, slice::is_aligned, sync::atomic::Ordering,
};

const MAGIC: [u8; 8] = *b"cupoolXF";

impl MemPool {
    /// A file descriptor by which a process on this host can import the pool; it is closed on `exec`. Each call makes
    /// another.
    ///
    /// # Errors
    /// [`Error::NotShareable`] unless the pool was made with [`MemHandleTypes::POSIX_FD`](crate::MemHandleTypes::POSIX_FD);
    /// else whatever the driver answers.
    #[doc(alias = "cuMemPoolExportToShareableHandle")]
    #[doc(alias = "cudaMemPoolExportToShareableHandle")]
    #[cfg(unix)]
    pub fn export_fd(&self) -> Result<OwnedFd> {
        let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        // SAFETY: the pool is borrowed, hence live; handles of this kind are `int`.
        let file: libc::c_int = unsafe { raw::ipc::mem_pool_export(self.driver().functions(), self.as_raw(), kind) }
            .map_err(not_shareable)?;
        if file < 0 {
            return Err(Error::MalformedHandle("the driver answered no file descriptor"));
        }
        // SAFETY: the driver has just opened it for the caller.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: the descriptor is open, and the call changes its flag only. Without the flag nothing is wrong here.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        Ok(file)
    }

    /// A handle by which a process on any host of the same NVLink fabric can import the pool, if both may use the same
    /// IMEX channel. Since CUDA 12.3.
    ///
    /// # Errors
    /// [`Error::NotShareable`] unless the pool was made with [`MemHandleTypes::FABRIC`](crate::MemHandleTypes::FABRIC); else
    /// whatever the driver answers, such as `CUDA_ERROR_NOT_PERMITTED` where no fabric is set up. After that answer
    /// drivers (seen with 580.159) do not survive the pool's destruction, so it is lost when it is dropped, and that is a
    /// [release failure](crate::release_failures).
    #[doc(alias = "cuMemPoolExportToShareableHandle")]
    pub fn export_fabric(&self) -> Result<FabricHandle> {
        let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;
        // SAFETY: the pool is borrowed, hence live; handles of this kind are 64 bytes.
        let handle = unsafe { raw::ipc::mem_pool_export(self.driver().functions(), self.as_raw(), kind) };
        Ok(FabricHandle(handle.map_err(|error| {
            let error = not_shareable(error);
            if error.code() == Some(CUresult::CUDA_ERROR_NOT_PERMITTED) {
                self.broken.store(true, Ordering::Relaxed);
            }
            error
        })?))
    }
}

/// A pool as a process on another host can import it: plain bytes, which own nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FabricHandle([u8; HANDLE_LEN]);

impl FabricHandle {
    /// Number of bytes that it is written as.
    pub const BYTES: usize = 8 + 4 + HANDLE_LEN;

    /// As bytes, to be sent to another process.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut writer = Writer(&mut bytes);
        writer.put_header(MAGIC);
        writer.put(&self.0);
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// [`Error::MalformedHandle`] if the bytes are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        reader.take_header(MAGIC)?;
        let handle = reader.take()?;
        reader.end()?;
        Ok(Self(handle))
    }
}

impl fmt::Debug for FabricHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FabricHandle").finish_non_exhaustive()
    }
}

/// Another process's pool, out of which single buffers can be imported. It cannot allocate, and has no use but that.
///
/// It may be dropped before what was imported from it, which keeps what is needed. The driver's pool is destroyed when the
/// device has released all imports, since drivers such as 580.159 do not survive it earlier; until somebody finds that it
/// has, it stays with the context ([`Context::drop_retired`]). An import that could not be released keeps it for ever.
pub struct ImportedPool {
    shared: Arc<Shared>,
}

/// What an imported pool and its buffers share.
pub(super) struct Shared {
    raw: CUmemoryPool,
    /// Ours alone. It waits for what buffers did that others hold the memory of, and for frees; nothing else is done
    /// on it.
    pub(super) ends: Stream,
    pub(super) registry: Registry,
    /// For the end.
    marker: Option<Marker>,
}

// SAFETY: a pool handle may be used from every thread, and the driver does its own locking.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl ImportedPool {
    /// Imports the pool that a file descriptor from [`MemPool::export_fd`] stands for, to be used in `context`, which
    /// must be of the same device. The descriptor stays the caller's and can be closed at once.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`]; [`Error::NotPrimary`] if `context` is not a primary one; else whatever the driver
    /// answers: `CUDA_ERROR_INVALID_VALUE` or another if the descriptor is of anything else.
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    #[doc(alias = "cudaMemPoolImportFromShareableHandle")]
    #[cfg(unix)]
    pub fn from_fd(context: &Context, fd: impl AsFd) -> Result<Self> {
        let functions = context.driver().functions();
        Self::import_with(context, || {
            // SAFETY: `import_with` makes the context current, and the descriptor is borrowed, hence open.
            unsafe { raw::ipc::mem_pool_import_file(functions, fd.as_fd().as_raw_fd()) }
        })
    }

    /// Imports the pool that a handle from [`MemPool::export_fabric`] stands for, to be used in `context`. Since CUDA
    /// 12.3.
    ///
    /// # Errors
    /// As for a descriptor: `CUDA_ERROR_NOT_PERMITTED` without access to the exporter's IMEX channel.
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    pub fn from_fabric(context: &Context, handle: &FabricHandle) -> Result<Self> {
        let functions = context.driver().functions();
        Self::import_with(context, || {
            // SAFETY: `import_with` makes the context current.
            unsafe { raw::ipc::mem_pool_import_fabric(functions, &handle.0) }
        })
    }

    fn import_with(context: &Context, import: impl FnOnce() -> Result<CUmemoryPool>) -> Result<Self> {
        context.device().ensure_memory_pools_supported()?;
        let ends = Stream::new(context)?;
        // The end must not fail for want of an event.
        let marker = ends.context().marker()?;
        match context.with_current(import) {
            Ok(raw) => {
                let shared = Shared { raw, ends, registry: Registry::new(), marker: Some(marker) };
                Ok(Self { shared: Arc::new(shared) })
            }
            Err(error) => {
                ends.context().retired().put_back(marker);
                Err(error)
            }
        }
    }

    /// The driver's handle, for calls that this crate does not make. It cannot be allocated from.
    #[must_use]
    pub fn as_raw(&self) -> CUmemoryPool {
        self.shared.raw
    }

    /// The device that it was imported on.
    #[must_use]
    pub fn device(&self) -> Device {
        self.shared.ends.context().device()
    }

    /// The driver it belongs to.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.shared.ends.driver()
    }

    /// How many allocations are imported: held by buffers, released but not yet by the device, or given up because
    /// their release could not be ordered.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuStreamQuery")]
    pub fn imports(&self) -> Result<usize> {
        gate::check()?;
        self.shared.forget_what_is_over()?;
        Ok(self.shared.registry.len())
    }

    /// Imports a buffer, at home on `stream`. Imports of one buffer share one mapping, which ends with the last of
    /// them, after the work of all. If an earlier mapping of it has been released and the device has yet to get there,
    /// the host waits until it has.
    ///
    /// Importing is no access: nothing is enqueued on `stream`.
    ///
    /// # Errors
    /// [`Error::ElementSize`] if it was exported as elements of another size; [`Error::BeyondAllocation`] or
    /// [`Error::OtherDevice`] if the descriptor claims more than the driver knows of; [`Error::ImportLost`];
    /// [`Error::DriverMismatch`]; else whatever the driver answers: `CUDA_ERROR_INVALID_VALUE` if the buffer is not of
    /// this pool, or is no more.
    ///
    /// # Safety
    /// The descriptor must come, unchanged, from [`Buffer::export`](crate::Buffer::export) (or, as far as its meaning
    /// goes, from another user of the driver) in a process that keeps these rules, and until the import is gone:
    ///
    /// - *Allocated before.* Work on `stream` that uses the memory comes after the exporter's allocation: the
    ///   exporter has waited for its home stream since, or an [`InterprocessEvent`](super::InterprocessEvent) recorded
    ///   there is waited for here.
    /// - *Freed after.* The exporter frees the buffer (drops it, that is) only where its home stream comes after the
    ///   release of every import: after an interprocess event that is recorded on the import's home stream once the
    ///   import has been dropped, or after a message that is sent once that stream has been synchronised. It also must
    ///   not end before.
    /// - *Written by nobody meanwhile, or in order.* Views of the import read it without asking. Whatever writes the
    ///   memory, in whichever process and through whichever import, is ordered with those reads in the same ways.
    /// - *Through one pool.* No other [`ImportedPool`] in this process has the buffer meanwhile: a driver may end the
    ///   mapping of both with the first that is released, and one pool does not know of the other.
    ///
    /// Breaking them is a use of memory that is not there, or a race, on the device: undefined behaviour as for a
    /// pointer of the host.
    #[doc(alias = "cuMemPoolImportPointer")]
    #[doc(alias = "cudaMemPoolImportPointer")]
    #[doc(alias = "cuPointerGetAttributes")]
    pub unsafe fn import<T: Pod, S: StreamHandle>(
        &self,
        exported: &ExportedPointer,
        stream: S,
    ) -> Result<ImportedBuffer<T, S>> {
        let home = stream.stream();
        home.ensure_not_captured()?;
        self.driver().ensure_same(home.driver())?;
        let (expected, found) = (home.context().device().as_raw(), self.device().as_raw());
        if expected != found {
            return Err(Error::OtherDevice { expected, found });
        }
        let (len, bytes) = exported.lens_of::<T>()?;
        let Some(data) = exported.data() else { return Ok(ImportedBuffer::empty(len, stream)) };
        let key = exported.address();
        home.ensure_ordered()?;
        // The release must not fail for want of an event.
        home.fence_event()?;
        self.shared.forget_what_is_over()?;
        let address = self.shared.map(&key, data)?;
        // From here on its drop undoes the import.
        let buffer = ImportedBuffer::new(address, len, stream, Arc::clone(&self.shared), key);
        self.shared.ensure_within(address, bytes)?;
        if !is_aligned(address, align_of::<T>()) {
            return Err(Error::Misaligned { address, align: align_of::<T>() });
        }
        Ok(buffer)
    }
}

impl Shared {
    fn context(&self) -> &Context {
        self.ends.context()
    }

    /// Enters one more buffer of the allocation, and answers its address.
    fn map(&self, key: &Key, data: &[u8; HANDLE_LEN]) -> Result<CUdeviceptr_v2> {
        loop {
            match self.registry.enter(key)? {
                Entry::Mapped(address) => return Ok(address),
                Entry::Freed => self.wait_for_frees()?,
                Entry::Vacant => {
                    let functions = self.ends.driver().functions();
                    let mapped = self.context().with_current(|| {
                        // SAFETY: the pool is live: it ends with `self`. `with_current` makes a context current.
                        unsafe { raw::ipc::mem_pool_import_pointer(functions, self.raw, data) }
                    });
                    self.registry.imported(key, mapped.as_ref().ok().copied());
                    return mapped;
                }
            }
        }
    }

    /// The driver knows how much was exported, whatever the descriptor says.
    fn ensure_within(&self, address: CUdeviceptr_v2, bytes: usize) -> Result<()> {
        let functions = self.ends.driver().functions();
        // SAFETY: `with_current` makes a context current.
        let range = self.context().with_current(|| unsafe { raw::ipc::pointer_range(functions, address) })?;
        let before = address.checked_sub(range.start).and_then(|before| usize::try_from(before).ok());
        let allocated = before.and_then(|before| range.bytes.checked_sub(before)).unwrap_or(0);
        if bytes > allocated {
            return Err(Error::BeyondAllocation { bytes, allocated });
        }
        let expected = self.context().device().as_raw();
        if range.device != expected {
            return Err(Error::OtherDevice { expected, found: range.device });
        }
        Ok(())
    }

    /// Takes out of the book what the device has freed by now.
    fn forget_what_is_over(&self) -> Result<()> {
        let pending = self.registry.pending();
        if !pending.is_empty() {
            let functions = self.ends.driver().functions();
            // SAFETY: the stream is live: it ends with `self`.
            if raw::stream::relaxed(functions, || unsafe { raw::stream::stream_query(functions, self.ends.as_raw()) })?
            {
                self.registry.settled(&pending);
            }
        }
        Ok(())
    }

    fn wait_for_frees(&self) -> Result<()> {
        let pending = self.registry.pending();
        raw::stream::relaxed(self.ends.driver().functions(), || self.ends.synchronize())?;
        self.registry.settled(&pending);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(marker) = self.marker.take() else { return };
        let retired = self.ends.context().retired();
        // All imports have ended: they hold on to this. One that is never freed keeps the pool.
        if self.registry.is_empty_but_for_frees() {
            let pool = Opened { raw: self.raw, driver: self.ends.driver() };
            retired.retire(&self.ends, marker, Box::new(pool));
        } else {
            retired.put_back(marker);
        }
    }
}

/// A pool of which nothing is imported any more. Drivers such as 580.159 do not survive its end before the device has
/// reached all frees.
struct Opened {
    raw: CUmemoryPool,
    driver: Driver,
}

// SAFETY: a pool handle may be used from every thread, and the driver does its own locking.
unsafe impl Send for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        let functions = self.driver.functions();
        // SAFETY: the pool is owned, and ends here.
        let destroy = || unsafe { raw::mem_pool::mem_pool_destroy(functions, self.raw) };
        release::report(raw::stream::relaxed(functions, destroy));
    }
}

impl fmt::Debug for ImportedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedPool").field("raw", &self.as_raw()).field("device", &self.device().as_raw()).finish()
    }
}
