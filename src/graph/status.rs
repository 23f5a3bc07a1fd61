//! Whether a stream is being captured, by whomever.

use cuda_sys::CUstreamCaptureStatus;

use crate::{Result, Stream, raw};

/// What a capture of a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// There is none.
    None,
    /// Work becomes part of a graph.
    Active,
    /// A call that must not be made has ended it in an error; who began it has yet to end it.
    Invalidated,
}

impl Stream {
    /// Whether the stream is being captured, and whether the capture still stands.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::Unsupported`](crate::Error::Unsupported) before CUDA 10.1.
    #[doc(alias = "cuStreamGetCaptureInfo")]
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        self.capture_info().map(|(status, _)| status)
    }

    /// A number that no other capture of this process ever has, while the stream is being captured.
    ///
    /// # Errors
    /// As [`capture_status`](Self::capture_status).
    #[doc(alias = "cuStreamGetCaptureInfo")]
    pub fn capture_id(&self) -> Result<Option<u64>> {
        let (status, id) = self.capture_info()?;
        Ok((status == CaptureStatus::Active).then_some(id))
    }

    fn capture_info(&self) -> Result<(CaptureStatus, u64)> {
        // SAFETY: the stream is borrowed, hence live.
        let (status, id) = unsafe { raw::graph::stream_get_capture_info(self.driver().functions(), self.as_raw()) }?;
        let status = match status {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => CaptureStatus::None,
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => CaptureStatus::Active,
            // A state that is newer than this crate is none in which work can be captured.
            _ => CaptureStatus::Invalidated,
        };
        Ok((status, id))
    }
}
