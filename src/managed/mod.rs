//! Managed memory: device and host use it at one address, and the driver moves it to where it is used.

mod buffer;
mod location;
mod placement;

pub use buffer::ManagedBuffer;
pub use location::MemLocation;

use cuda_sys::CUevent_flags_enum;

use crate::{Context, Result, gate, host::Memory, raw, release};

impl Context {
    /// Managed memory of `bytes` bytes or more that the device does not use.
    fn take_managed(&self, bytes: usize) -> Result<Memory> {
        let functions = self.driver().functions();
        if let Some(memory) = self.parked_managed().take(functions, bytes) {
            return Ok(memory);
        }
        if self.parked_managed().surplus() > 0 {
            self.trim_managed()?;
        }
        self.with_current(|| {
            // SAFETY: `with_current` makes the context current that is to own both.
            let event = unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }?;
            // SAFETY: as above.
            match unsafe { raw::managed::mem_alloc_managed(functions, bytes) } {
                Ok(address) => Ok(Memory { address: host_pointer(address), bytes, event, marked: true }),
                Err(error) => {
                    // SAFETY: the event was just made, and nobody has seen it.
                    release::report(unsafe { raw::event::event_destroy(functions, event) });
                    Err(error)
                }
            }
        })
    }

    /// Frees the managed memory of dropped [`ManagedBuffer`]s that came from no pool, which is kept for reuse, and
    /// returns how many bytes that were. Waits for the device. Without it, all is kept until the context's last owner is
    /// dropped, or until more is made while more than 256 MiB are kept: then this is done first.
    ///
    /// # Errors
    /// [`Error::ForkedAfterInit`](crate::Error::ForkedAfterInit). What cannot be freed is counted as a
    /// [release failure](crate::release_failures).
    #[doc(alias = "cuMemFree")]
    pub fn trim_managed(&self) -> Result<usize> {
        gate::check()?;
        // SAFETY: what is parked here is of this context, which is live.
        Ok(unsafe { self.parked_managed().free(self.driver().functions(), self.as_raw()) })
    }
}

/// Managed memory as the host sees it: at the same address.
fn host_pointer<T>(address: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}
