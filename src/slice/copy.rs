//! Copies between host and device, and between device memory of one home or two.

use bytemuck::Pod;

use super::{DeviceSlice, DeviceSliceMut};
use crate::{Error, Result, direct, order, raw};

impl<T: Pod> DeviceSlice<'_, T> {
    /// Copies the elements to `destination`, which holds them when this returns. Waits for the home stream.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::StreamCapturing`] before anything is copied; else whatever the driver
    /// answers, and then `destination` may hold anything.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        ensure_same_len(destination.len(), self.len())?;
        if self.byte_len() == 0 {
            return Ok(());
        }
        self.ensure_usable()?;
        let home = self.home();
        home.ensure_not_capturing()?;
        // SAFETY: the view is valid in its home's order, for as many bytes.
        unsafe { direct::copy_to_host(home, self.as_raw(), bytemuck::cast_slice_mut(destination)) }
    }

    /// Copies the elements into a new vector. Waits for the home stream.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host); [`Error::SizeOverflow`] if the host has no room for them.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let too_many = |()| Error::SizeOverflow { len: self.len(), size: size_of::<T>() };
        let mut elements = bytemuck::try_zeroed_slice_box(self.len()).map_err(too_many)?.into_vec();
        self.copy_to_host(&mut elements)?;
        Ok(elements)
    }
}

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Copies `source` to the device, in the home stream's order. When this returns the source has been read, and may
    /// be changed or freed, whatever kind of memory it is.
    ///
    /// The host copies the source to page-locked memory, and the device from there. If the device is far behind (eight
    /// copies of up to 64 KiB, or 4 MiB of larger ones), this waits for it to catch up. Sources of 4 MiB and more in
    /// ordinary memory are left to the driver, which is faster at them, and waited for.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::StreamCapturing`] before anything is copied; else whatever the driver
    /// answers, and then a part of the elements may have been copied.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        ensure_same_len(self.len(), source.len())?;
        if self.byte_len() == 0 {
            return Ok(());
        }
        self.ensure_usable()?;
        let home = self.home();
        home.ensure_not_capturing()?;
        // SAFETY: the view is valid and exclusive in its home's order, for as many bytes.
        unsafe { direct::copy_from_host(home, self.as_raw(), bytemuck::cast_slice(source)) }
    }

    /// Copies `source` here, on this memory's home stream. If the source is at home on another stream, this one first
    /// waits for that, and that then for the copy; the host waits for neither.
    ///
    /// Between devices the driver finds out by itself whose memory it is, but memory of a pool must be within reach of
    /// the home's device: its pool must grant access. Where it does not, use
    /// [`copy_from_peer`](DeviceSliceMut::copy_from_peer).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] and [`Error::DriverMismatch`] before anything is enqueued; else whatever the driver
    /// answers.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[inline]
    pub fn copy_from(&mut self, source: DeviceSlice<'_, T>) -> Result<()> {
        ensure_same_len(self.len(), source.len())?;
        if self.byte_len() == 0 {
            return Ok(());
        }
        self.ensure_usable()?;
        source.ensure_usable()?;
        let home = self.home();
        // SAFETY: both views are valid in their homes' orders, and `foreign` makes this home agree with the source's;
        // they are of the same length, and the exclusive one shares no byte with the other.
        order::foreign(home, source.home(), || unsafe {
            raw::memory::memcpy_dtod_async(
                home.driver().functions(),
                self.as_raw(),
                source.as_raw(),
                self.byte_len(),
                home.as_raw(),
            )
        })
    }
}

#[inline]
pub(crate) fn ensure_same_len(destination: usize, source_len: usize) -> Result<()> {
    if destination == source_len { Ok(()) } else { Err(Error::LengthMismatch { destination, source_len }) }
}
