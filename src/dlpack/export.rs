//! Buffers that become tensors.

use core::{
    ffi::c_void,
    ptr::{self, NonNull},
};

use super::{
    ConsumerStream, DlElement, DlpackError, ManagedTensor,
    ffi::{
        DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION, DLPackVersion,
        DLTensor,
    },
};
use crate::{
    Buffer, Error, Result, StreamHandle,
    foreign::retired::{Marker, guarded},
    release,
};

/// A buffer that is in the hands of a consumer.
struct Exported<T: DlElement, S: StreamHandle> {
    tensor: DLManagedTensorVersioned,
    layout: Layout,
    buffer: Buffer<T, S>,
    consumer: ConsumerStream,
    /// There is one if the consumer's stream needs it: the end must not fail for want of an event.
    marker: Option<Marker>,
}

/// What a tensor points to: the length of each dimension, and how many elements lie between neighbours in it.
struct Layout {
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

impl<T: DlElement, S: StreamHandle + Send + 'static> Buffer<T, S> {
    /// Makes the buffer a DLPack tensor of this shape, row-major, for a consumer that uses it in the order of
    /// `consumer`, which first waits for the home stream. No element is copied.
    ///
    /// When the consumer is done with the tensor, on whatever thread, the home stream waits for the consumer's, and the
    /// memory is freed in the home stream's order. If it cannot be made to wait, the host waits for all work of the
    /// context; if that fails too, or while one of the streams is being captured, the memory is leaked and counted as a
    /// [release failure](crate::release_failures).
    ///
    /// The tensor is of kind `kDLCUDA`, on the home stream's device.
    ///
    /// # Errors
    /// [`DlpackError::Shape`] unless the shape has as many elements as the buffer; [`Error::LoanForgotten`],
    /// [`Error::OrderLost`] and [`Error::StreamCapturing`]; else whatever the driver answers. The buffer comes back as it
    /// was.
    #[doc(alias = "cuEventRecord")]
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn into_dlpack(mut self, shape: &[usize], consumer: ConsumerStream) -> Result<ManagedTensor, (Error, Self)> {
        self.give_up_if_lent();
        let begun = self.begin(shape, consumer);
        let (layout, marker) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err((error, self)),
        };
        let device = self.home().context().device().as_raw();
        let exported = NonNull::from(Box::leak(Box::new(Exported {
            tensor: DLManagedTensorVersioned {
                version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
                manager_ctx: ptr::null_mut(),
                deleter: Some(delete::<T, S>),
                flags: 0,
                dl_tensor: DLTensor {
                    data: address(self.as_raw()),
                    device: DLDevice { device_type: DLDeviceType::kDLCUDA, device_id: device },
                    ndim: shape.len() as i32,
                    dtype: T::DATA_TYPE,
                    shape: ptr::null_mut(),
                    strides: ptr::null_mut(),
                    byte_offset: 0,
                },
            },
            layout,
            buffer: self,
            consumer,
            marker,
        })));
        let raw = exported.as_ptr();
        // SAFETY: the box was just given up, and nobody else has it; its parts stay where they are.
        let tensor = unsafe {
            (*raw).tensor.dl_tensor.shape = (*raw).layout.shape.as_mut_ptr();
            (*raw).tensor.dl_tensor.strides = (*raw).layout.strides.as_mut_ptr();
            (*raw).tensor.manager_ctx = raw.cast();
            NonNull::new_unchecked(&raw mut (*raw).tensor)
        };
        // SAFETY: a tensor as the header describes it, owned, with a deleter for any thread: the parts can be sent.
        Ok(unsafe { ManagedTensor::from_non_null(tensor) })
    }

    /// Checks the shape and has the consumer's stream wait; nothing has changed if that fails.
    fn begin(&self, shape: &[usize], consumer: ConsumerStream) -> Result<(Layout, Option<Marker>)> {
        let layout = row_major(shape, self.len())?;
        let home = self.home();
        if self.byte_len() == 0 {
            return Ok((layout, None));
        }
        if self.as_raw() == 0 {
            return Err(Error::LoanForgotten);
        }
        let marker = if consumer.needs_marker() { Some(home.context().marker()?) } else { None };
        match consumer.begin(home, marker.as_ref()) {
            Ok(()) => Ok((layout, marker)),
            Err(error) => {
                if let Some(marker) = marker {
                    home.context().retired().put_back(marker);
                }
                Err(error)
            }
        }
    }
}

impl<T: DlElement, S: StreamHandle> Exported<T, S> {
    /// The consumer is done with it.
    fn end(self) {
        let Self { buffer, consumer, marker, .. } = self;
        let ended = if buffer.as_raw() == 0 { Ok(()) } else { consumer.end(buffer.home(), marker.as_ref()) };
        if let Some(marker) = marker {
            buffer.home().context().retired().put_back(marker);
        }
        match ended {
            Ok(()) => drop(buffer),
            Err(error) => {
                // Nothing says when the consumer is done: the memory is given up.
                drop(buffer.into_raw_parts());
                release::report(Err(error));
            }
        }
    }
}

/// # Safety
/// `tensor` must be null or that of an [`Exported`] of these types, which nobody uses afterwards.
unsafe extern "C" fn delete<T: DlElement, S: StreamHandle>(tensor: *mut DLManagedTensorVersioned) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: as the caller says; the context is the box, and it is taken over once.
    let exported = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Exported<T, S>>()) };
    // What drops may belong to others; nothing unwinds into C.
    guarded(|| exported.end());
}

/// A shape of `len` elements, and its strides in elements.
fn row_major(shape: &[usize], len: usize) -> Result<Layout> {
    let fits = |number: usize| i64::try_from(number).map_err(|_| DlpackError::Shape);
    if shape.len() > super::import::MOST_DIMENSIONS {
        return Err(DlpackError::Dimensions(i32::try_from(shape.len()).unwrap_or(i32::MAX)).into());
    }
    let lengths = shape.iter().map(|length| fits(*length)).collect::<Result<Box<[i64]>, _>>()?;
    let mut strides = Vec::with_capacity(shape.len());
    let mut elements = 1_usize;
    for length in shape.iter().rev() {
        strides.push(fits(elements)?);
        // Where there is no element, how far apart they would be means nothing.
        elements = elements.checked_mul(*length).ok_or(DlpackError::Shape)?;
    }
    strides.reverse();
    if elements == len {
        Ok(Layout { shape: lengths, strides: strides.into() })
    } else {
        Err(DlpackError::Shape.into())
    }
}

/// A device address in the form that C gives it.
const fn address(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(address as usize)
}
