//! Tensors of other libraries, as buffers.

use core::slice;
use std::sync::Arc;

use super::{
    DlElement, DlpackError, ManagedTensor,
    ffi::{DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLTensor},
};
use crate::{Device, DeviceSlice, DeviceSliceMut, Error, ForeignBuffer, Result, Stream, StreamHandle};

/// More dimensions than any library's tensors have are a sign of something else.
pub(super) const MOST_DIMENSIONS: usize = 64;

/// Another library's tensor in device memory, at home on one stream of ours.
///
/// Its elements lie one after the other in row-major order. When it is dropped, the tensor's deleter is called once the
/// home stream's work is done; see [`ForeignBuffer`].
#[derive(Debug)]
pub struct ImportedTensor<T: DlElement, S: StreamHandle = Arc<Stream>> {
    buffer: ForeignBuffer<T, ManagedTensor, S>,
    shape: Box<[usize]>,
    read_only: bool,
}

impl<T: DlElement, S: StreamHandle> ImportedTensor<T, S> {
    /// Takes over the tensor `raw`, for use in the order of `stream`. If that fails its deleter is called: in any case
    /// it is called once.
    ///
    /// # Errors
    /// [`Error::Dlpack`] says what is not as it should be; [`Error::NullAddress`], [`Error::Misaligned`] and
    /// [`Error::SizeOverflow`] are about the memory; else whatever the driver answers.
    ///
    /// # Safety
    /// As [`ManagedTensor::from_raw`]. What was done with the memory before must be ordered before what `stream` gets
    /// from now on: producers see to that if they are given the stream's handle as the protocol says. Nobody else may
    /// use the memory until the deleter is called, except in `stream`'s order.
    pub unsafe fn from_raw(raw: *mut DLManagedTensorVersioned, stream: S) -> Result<Self> {
        // SAFETY: as the caller says.
        unsafe { Self::from_managed(ManagedTensor::from_raw(raw)?, stream) }
    }

    /// The same, of a tensor that has an owner already.
    ///
    /// # Errors
    /// As [`from_raw`](Self::from_raw).
    ///
    /// # Safety
    /// As [`from_raw`](Self::from_raw).
    pub unsafe fn from_managed(tensor: ManagedTensor, stream: S) -> Result<Self> {
        let version = tensor.version();
        if version.major != DLPACK_MAJOR_VERSION {
            return Err(DlpackError::Version(version).into());
        }
        let read_only = tensor.is_read_only();
        // SAFETY: the tensor is live as long as `tensor`, and of the header's layout.
        let described = unsafe { describe::<T>(&(*tensor.as_raw()).dl_tensor, stream.stream().context().device()) };
        let Described { address, len, shape } = described?;
        // SAFETY: the caller vouches for the memory, which lives until the deleter is called.
        match unsafe { ForeignBuffer::new(address, len, stream, tensor) } {
            Ok(buffer) => Ok(Self { buffer, shape, read_only }),
            Err((error, _)) => Err(error),
        }
    }

    /// The length of each dimension; none for a single element.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether the producer forbids that the memory is written.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
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
    ///
    /// # Errors
    /// [`DlpackError::ReadOnly`].
    pub fn as_mut_slice(&mut self) -> Result<DeviceSliceMut<'_, T>> {
        self.ensure_writable()?;
        Ok(self.buffer.as_mut_slice())
    }

    /// The tensor as a buffer without a shape.
    ///
    /// # Errors
    /// [`DlpackError::ReadOnly`], with the tensor as it was.
    pub fn into_buffer(self) -> Result<ForeignBuffer<T, ManagedTensor, S>, (Error, Self)> {
        match self.ensure_writable() {
            Ok(()) => Ok(self.buffer),
            Err(error) => Err((error, self)),
        }
    }

    fn ensure_writable(&self) -> Result<()> {
        if self.read_only { Err(DlpackError::ReadOnly.into()) } else { Ok(()) }
    }
}

/// Where a tensor's elements are, and how many.
struct Described {
    address: u64,
    len: usize,
    shape: Box<[usize]>,
}

/// Reads a tensor that must be on `device`, of `T`s and contiguous.
///
/// # Safety
/// `shape` and `strides` must be null, or point to as many numbers as there are dimensions.
unsafe fn describe<T: DlElement>(tensor: &DLTensor, device: Device) -> Result<Described> {
    let on_device = match tensor.device.device_type {
        DLDeviceType::kDLCUDA => tensor.device.device_id == device.as_raw(),
        // Every device can use it, and producers need not say which.
        DLDeviceType::kDLCUDAManaged => true,
        _ => false,
    };
    if !on_device {
        return Err(DlpackError::Device(tensor.device).into());
    }
    if tensor.dtype != T::DATA_TYPE {
        return Err(DlpackError::DataType(tensor.dtype).into());
    }
    let dimensions = match usize::try_from(tensor.ndim) {
        Ok(dimensions) if dimensions <= MOST_DIMENSIONS => dimensions,
        _ => return Err(DlpackError::Dimensions(tensor.ndim).into()),
    };
    // SAFETY: as the caller says.
    let shape = unsafe { numbers(tensor.shape, dimensions) }.ok_or(DlpackError::Shape)?;
    let (shape, len) = counted(shape).ok_or(DlpackError::Shape)?;
    // SAFETY: as the caller says.
    let strides = unsafe { numbers(tensor.strides, dimensions) };
    if len > 1 && strides.is_some_and(|strides| !is_row_major(&shape, strides)) {
        return Err(DlpackError::Strides.into());
    }
    let address = tensor.data.addr() as u64;
    // Of no memory, also the address means nothing.
    let address = match len {
        0 => 0,
        _ if address == 0 => return Err(Error::NullAddress),
        _ => address.checked_add(tensor.byte_offset).ok_or(DlpackError::ByteOffset)?,
    };
    Ok(Described { address, len, shape })
}

/// None if there should be some, and are not.
///
/// # Safety
/// `first` must be null, or the first of `count` numbers that live for `'a`.
unsafe fn numbers<'a>(first: *const i64, count: usize) -> Option<&'a [i64]> {
    match count {
        0 => Some(&[]),
        _ if first.is_null() => None,
        // SAFETY: as the caller says.
        _ => Some(unsafe { slice::from_raw_parts(first, count) }),
    }
}

/// The shape as lengths, and the number of its elements.
fn counted(shape: &[i64]) -> Option<(Box<[usize]>, usize)> {
    let shape = shape.iter().map(|length| usize::try_from(*length).ok()).collect::<Option<Box<[usize]>>>()?;
    // No element, however long the other dimensions are.
    if shape.contains(&0) {
        return Some((shape, 0));
    }
    let len = shape.iter().try_fold(1_usize, |elements, length| elements.checked_mul(*length))?;
    Some((shape, len))
}

/// Whether neighbours in each dimension are as far apart as what lies between them is long. Where there is only one
/// element in a dimension it has no neighbours.
fn is_row_major(shape: &[usize], strides: &[i64]) -> bool {
    let mut expected = 1_usize;
    shape.iter().zip(strides).rev().all(|(length, stride)| {
        let fits = *length == 1 || usize::try_from(*stride) == Ok(expected);
        // The product of all lengths does not wrap, nor does that of some.
        expected = expected.wrapping_mul(*length);
        fits
    })
}
