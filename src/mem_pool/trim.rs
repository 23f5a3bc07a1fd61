//! Giving memory back: how much of it went, and what kept the rest.

use cuda_sys::CUmemPool_attribute;

use super::MemPool;
use crate::{Result, Stream, raw};

/// What a trim achieved, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Given back to the system.
    pub released: u64,
    /// Still held by the pool. What is held beyond what is used and what was to be kept waits for streams to reach
    /// enqueued frees, or shares a page with memory in use.
    pub reserved: u64,
    /// Still allocated to buffers.
    pub used: u64,
}

impl Trimmed {
    /// Held by the pool although no buffer has it, and not given back: what was to be kept, what waits for a stream to
    /// reach an enqueued free, and what shares a page with memory in use. The driver does not tell these apart. After
    /// [`trim_after`](MemPool::trim_after) with the streams that the memory was freed on nothing waits any more, so that
    /// what is left beyond what was to be kept shares its pages.
    #[must_use]
    pub const fn unused(&self) -> u64 {
        self.reserved.saturating_sub(self.used)
    }
}

impl MemPool {
    /// Gives memory that is free back to the system until the pool holds no more than `keep` bytes, or all the rest is
    /// in use. Frees that a stream has yet to reach are not free memory: synchronise first to give that back too, or
    /// use [`trim_after`](Self::trim_after). Other users of a shared pool find what is kept, and pay for what is not.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuMemPoolTrimTo")]
    #[doc(alias = "cudaMemPoolTrimTo")]
    pub fn trim_to(&self, keep: usize) -> Result<Trimmed> {
        self.relaxed(|| self.trim(keep))
    }

    /// Waits on the host for all that `stream` was given so far, so that memory freed there is free, and then does
    /// what [`trim_to`](Self::trim_to) does. Frees that other streams have yet to reach still keep their memory.
    ///
    /// # Errors
    /// [`Error::StreamCapturing`](crate::Error::StreamCapturing) while the stream is being captured, which waiting would
    /// spoil; [`Error::DriverMismatch`](crate::Error::DriverMismatch); whatever the driver answers. A fault of earlier
    /// work surfaces here; see [`Error::is_sticky`](crate::Error::is_sticky).
    #[doc(alias = "cuMemPoolTrimTo")]
    #[doc(alias = "cuStreamSynchronize")]
    pub fn trim_after(&self, stream: &Stream, keep: usize) -> Result<Trimmed> {
        self.driver().ensure_same(stream.driver())?;
        stream.ensure_not_capturing()?;
        self.relaxed(|| {
            stream.synchronize()?;
            self.trim(keep)
        })
    }

    fn trim(&self, keep: usize) -> Result<Trimmed> {
        let before = self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        // SAFETY: the pool is borrowed, hence live.
        unsafe { raw::mem_pool::mem_pool_trim_to(self.driver().functions(), self.as_raw(), keep)? };
        let reserved = self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        // Another thread may have made the pool grow meanwhile.
        Ok(Trimmed { released: before.saturating_sub(reserved), reserved, used })
    }
}
