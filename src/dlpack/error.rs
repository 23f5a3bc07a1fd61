//! What can be wrong with a tensor.

use super::ffi::{DLDataType, DLDevice, DLPackVersion};

/// Why a DLPack tensor was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DlpackError {
    /// The pointer to the tensor is null.
    #[error("the pointer to the tensor is null")]
    Null,
    /// The tensor's layout is of another major version.
    #[error("the tensor is of DLPack version {}.{}, not of version 1", .0.major, .0.minor)]
    Version(DLPackVersion),
    /// The memory is not of CUDA, or of another device than the stream's.
    #[error("the tensor is on device {} of kind {} (2 is CUDA), not on the stream's device", .0.device_id, .0.device_type.0)]
    Device(DLDevice),
    /// The elements are of another type.
    #[error("the elements are of kind {}, {} bits and {} lanes", .0.code.0, .0.bits, .0.lanes)]
    DataType(DLDataType),
    /// The number of dimensions is negative, or more than 64.
    #[error("{0} dimensions are negative, or too many")]
    Dimensions(i32),
    /// The shape is null or negative, or has more elements than can be counted; or, in an export, not as many as the
    /// buffer.
    #[error("the shape does not fit")]
    Shape,
    /// The elements do not lie one after the other in row-major order.
    #[error("the elements are not contiguous in row-major order")]
    Strides,
    /// The address overflows where the offset is added.
    #[error("the byte offset overflows the address space")]
    ByteOffset,
    /// The producer does not allow that the memory is written.
    #[error("the tensor is read-only")]
    ReadOnly,
    /// The number that is to name a stream names none.
    #[error("{0} does not name a CUDA stream")]
    Stream(i64),
}

impl From<DlpackError> for crate::Error {
    fn from(error: DlpackError) -> Self {
        Self::Dlpack(error)
    }
}
