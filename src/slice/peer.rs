//! Copies between devices that cannot reach each other's memory.

use bytemuck::Pod;

use super::{DeviceSlice, DeviceSliceMut, ensure_same_len};
use crate::{Result, order, raw};

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Copies `source` here, between the devices of the two homes, each of which must be the device that has the memory.
    /// Ordered as [`copy_from`](Self::copy_from): on this memory's home stream, after the source's and before what that
    /// is given next; the host waits for neither.
    ///
    /// Works whether or not the devices reach each other's memory: the driver goes through the host if need be, where
    /// `copy_from` needs the pools to have granted access.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) and
    /// [`Error::DriverMismatch`](crate::Error::DriverMismatch) before anything is enqueued; else whatever the driver
    /// answers.
    #[doc(alias = "cuMemcpyPeerAsync")]
    pub fn copy_from_peer(&mut self, source: DeviceSlice<'_, T>) -> Result<()> {
        ensure_same_len(self.len(), source.len())?;
        if self.byte_len() == 0 {
            return Ok(());
        }
        self.ensure_usable()?;
        source.ensure_usable()?;
        let (home, from) = (self.home(), source.home());
        // SAFETY: both views are valid in their homes' orders, and `foreign` makes this home agree with the source's;
        // they are of the same length, and the exclusive one shares no byte with the other. The streams keep their
        // contexts.
        order::foreign(home, from, || unsafe {
            raw::memory::memcpy_peer_async(
                home.driver().functions(),
                (self.as_raw(), home.context().as_raw()),
                (source.as_raw(), from.context().as_raw()),
                self.byte_len(),
                home.as_raw(),
            )
        })
    }
}
