//! Fills with a pattern of 1, 2 or 4 bytes.

use bytemuck::Pod;
use cuda_sys::{CUdeviceptr_v2, CUstream, Functions};

use super::{DeviceSliceMut, is_aligned};
use crate::{Error, Result, raw};

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Sets every element to `value`, in the home stream's order.
    ///
    /// Elements must be of 1, 2 or 4 bytes, the widths that the driver can fill with: others do not compile.
    /// [`fill_zero`](Self::fill_zero) takes all.
    ///
    /// # Errors
    /// Whatever the driver answers; [`Error::Misaligned`] where the type's alignment is less than its size and the
    /// address is not a multiple of the size.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cuMemsetD16Async")]
    #[doc(alias = "cuMemsetD32Async")]
    #[inline]
    pub fn fill(&mut self, value: T) -> Result<()> {
        const {
            assert!(matches!(size_of::<T>(), 0 | 1 | 2 | 4), "`fill` takes elements of 1, 2 or 4 bytes");
        }
        match *bytemuck::bytes_of(&value) {
            [a] => self.set(u8::from_ne_bytes([a]), raw::memory::memset_d8_async),
            [a, b] => self.set(u16::from_ne_bytes([a, b]), raw::memory::memset_d16_async),
            [a, b, c, d] => self.set(u32::from_ne_bytes([a, b, c, d]), raw::memory::memset_d32_async),
            _ => Ok(()),
        }
    }

    /// Sets every byte to zero, in the home stream's order.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuMemsetD8Async")]
    #[inline]
    pub fn fill_zero(&mut self) -> Result<()> {
        let len = self.byte_len();
        // SAFETY: the same bytes, seen as bytes.
        let mut bytes = unsafe { DeviceSliceMut::<u8>::from_raw_parts(self.as_raw(), len, self.home()) };
        bytes.set(0, raw::memory::memset_d8_async)
    }

    #[inline(always)]
    fn set<P>(
        &mut self,
        pattern: P,
        memset: unsafe fn(&Functions, CUdeviceptr_v2, P, usize, CUstream) -> Result<()>,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if !is_aligned(self.as_raw(), size_of::<P>()) {
            return Err(Error::Misaligned { address: self.as_raw(), align: size_of::<P>() });
        }
        self.ensure_usable()?;
        let home = self.home();
        // SAFETY: the view is valid and exclusive in its home's order, and one pattern is as wide as an element.
        unsafe { memset(home.driver().functions(), self.as_raw(), pattern, self.len(), home.as_raw()) }
    }
}
