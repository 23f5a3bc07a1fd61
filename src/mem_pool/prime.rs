//! Taking memory from the system before it is needed.

use super::MemPool;
use crate::{Result, Stream};

impl MemPool {
    /// Has the pool take memory from the system until it holds at least `bytes` that are free, so that the allocations
    /// to come need not: one allocation and its free, in `stream`'s order.
    ///
    /// The pool keeps that memory as far as its [release threshold](Self::release_threshold) allows, until it is
    /// [trimmed](Self::trim_to). Other streams may use it at once if they are ordered after `stream`, and the reuse
    /// policies are as they come.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc): [`Error::OutOfMemory`](crate::Error::OutOfMemory) says what was asked for and what
    /// there is; the pool is as it was then, less what the rescue gave back.
    /// [`Error::StreamCapturing`](crate::Error::StreamCapturing) while the stream is being captured, since memory that a
    /// graph allocates is not the pool's.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cuMemFreeAsync")]
    pub fn prime(&self, bytes: usize, stream: &Stream) -> Result<()> {
        stream.ensure_not_capturing()?;
        self.alloc::<u8, _>(bytes, stream)?.free()
    }
}
