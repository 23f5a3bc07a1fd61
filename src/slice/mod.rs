//! Views of device memory: what copies, fills and slicing are written on, once, for every owner of memory.

mod copy;
mod fill;
mod peer;

use core::{
    fmt,
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

pub(crate) use copy::ensure_same_len;

use crate::{Error, Result, Stream};

/// A shared view of `len` elements in device memory, with the stream on which they are at home.
///
/// Making one calls nothing and copies nothing. Elements are plain data, so any bytes are valid ones: memory that was
/// never written can be read.
pub struct DeviceSlice<'a, T> {
    address: CUdeviceptr_v2,
    len: usize,
    home: &'a Stream,
    _elements: PhantomData<&'a [T]>,
}

/// An exclusive view of `len` elements in device memory; see [`DeviceSlice`].
pub struct DeviceSliceMut<'a, T> {
    address: CUdeviceptr_v2,
    len: usize,
    home: &'a Stream,
    _elements: PhantomData<&'a mut [T]>,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

/// What both kinds of view have; `$view` is the type, written `view!(U)` for another element type.
macro_rules! common {
    ($view:ident) => {
        impl<'a, T: Pod> $view<'a, T> {
            /// Views `len` elements at `address`.
            ///
            /// # Safety
            /// For all of `'a`, the memory must be allocated and nobody may free it or use it in a way that Rust's
            /// rules for references forbid, counted in the order of the stream `home`. `address` must be a multiple
            /// of `T`'s alignment, unless `len` or `T` is of size 0.
            #[must_use]
            #[inline]
            pub const unsafe fn from_raw_parts(address: CUdeviceptr_v2, len: usize, home: &'a Stream) -> Self {
                Self { address, len, home, _elements: PhantomData }
            }

            /// Number of elements.
            #[must_use]
            #[inline]
            pub const fn len(&self) -> usize {
                self.len
            }

            /// Whether there is no element.
            #[must_use]
            #[inline]
            pub const fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Number of bytes.
            #[must_use]
            #[inline]
            pub const fn byte_len(&self) -> usize {
                // An allocation of that many bytes exists, so the product cannot wrap.
                self.len.wrapping_mul(size_of::<T>())
            }

            /// The device address of the first element; 0 if nothing was allocated because there is none, or if the
            /// memory was given up (see [`Error::LoanForgotten`]). Using it is subject to the home stream's order.
            #[must_use]
            #[inline]
            pub const fn as_raw(&self) -> CUdeviceptr_v2 {
                self.address
            }

            /// The stream on which the memory is at home.
            #[must_use]
            #[inline]
            pub const fn home(&self) -> &'a Stream {
                self.home
            }

            /// Fails unless the memory is there, and in order on its home stream.
            #[inline(always)]
            pub(crate) fn ensure_usable(&self) -> Result<()> {
                if self.address == 0 {
                    return Err(Error::LoanForgotten);
                }
                self.home.ensure_ordered()
            }

            /// The elements of `range`.
            ///
            /// # Errors
            /// [`Error::OutOfBounds`] if it ends beyond the last element or before its start.
            pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let (start, len) = resolve(&range, self.len)?;
                // SAFETY: a part of a valid view is a valid view, and this one is used up or shared.
                Ok(unsafe { Self::from_raw_parts(offset::<T>(self.address, start), len, self.home) })
            }

            /// The first `mid` elements, and the rest.
            ///
            /// # Errors
            /// [`Error::OutOfBounds`] if there are not so many.
            pub fn split_at(self, mid: usize) -> Result<(Self, Self)> {
                if mid > self.len {
                    return Err(Error::OutOfBounds { end: mid, len: self.len });
                }
                // SAFETY: the parts of a valid view are valid views, and these two share no element.
                Ok(unsafe {
                    (
                        Self::from_raw_parts(self.address, mid, self.home),
                        Self::from_raw_parts(offset::<T>(self.address, mid), self.len - mid, self.home),
                    )
                })
            }

            /// The same bytes as elements of another type.
            ///
            /// # Errors
            /// [`Error::Misaligned`] or [`Error::UnevenCast`] if they are not whole, aligned elements of it.
            pub fn cast<U: Pod>(self) -> Result<$view<'a, U>> {
                let len = cast_len::<T, U>(self.address, self.len)?;
                // SAFETY: any bytes are valid elements of both types, and address and length fit.
                Ok(unsafe { $view::from_raw_parts(self.address, len, self.home) })
            }
        }

        impl<T> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view))
                    .field("address", &format_args!("{:#x}", self.address))
                    .field("len", &self.len)
                    .field("home", &self.home.as_raw())
                    .finish()
            }
        }
    };
}

common!(DeviceSlice);
common!(DeviceSliceMut);

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// A shared view of the same elements, for as long as this one is borrowed.
    #[must_use]
    #[inline]
    pub const fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice { address: self.address, len: self.len, home: self.home, _elements: PhantomData }
    }

    /// Another exclusive view of the same elements, for as long as this one is borrowed.
    #[must_use]
    #[inline]
    pub const fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut { address: self.address, len: self.len, home: self.home, _elements: PhantomData }
    }
}

/// `len` elements in bytes.
#[inline(always)]
pub(crate) fn byte_len<T>(len: usize) -> Result<usize> {
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) => Ok(bytes),
        None => Err(Error::SizeOverflow { len, size: size_of::<T>() }),
    }
}

/// How many `U`s the `len` `T`s at `address` are.
pub(crate) fn cast_len<T, U>(address: CUdeviceptr_v2, len: usize) -> Result<usize> {
    let bytes = byte_len::<T>(len)?;
    if bytes != 0 && !is_aligned(address, align_of::<U>()) {
        return Err(Error::Misaligned { address, align: align_of::<U>() });
    }
    match (bytes, size_of::<U>()) {
        // Elements without size: as many as there were, or none where there was something.
        (0, 0) => Ok(len),
        (bytes, size) if size != 0 && bytes % size == 0 => Ok(bytes / size),
        (bytes, size) => Err(Error::UnevenCast { bytes, size }),
    }
}

/// Whether `address` is a multiple of `align`.
pub(crate) const fn is_aligned(address: CUdeviceptr_v2, align: usize) -> bool {
    address.is_multiple_of(align as u64)
}

/// The address of element `index`, which is at most one past the end.
const fn offset<T>(address: CUdeviceptr_v2, index: usize) -> CUdeviceptr_v2 {
    // Memory that is not there has no parts.
    if address == 0 {
        return 0;
    }
    address.wrapping_add(index.wrapping_mul(size_of::<T>()) as u64)
}

/// Start and length of `range` in a slice of `len` elements.
fn resolve(range: &impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(start) => Some(*start),
        Bound::Excluded(start) => start.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.checked_add(1),
        Bound::Excluded(end) => Some(*end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok((start, end - start)),
        (start, end) => Err(Error::OutOfBounds { end: start.max(end).unwrap_or(usize::MAX), len }),
    }
}
