//! Page-locked memory to and from raw parts.

use core::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
};

use bytemuck::Pod;
use cuda_sys::CUevent_flags_enum;

use super::{Memory, Owned, Pending, PinnedBuffer, Uses};
use crate::{
    Context, Error, Result, raw, release,
    slice::{byte_len, is_aligned},
    sync::Mutex,
};

impl<T: Pod> PinnedBuffer<T> {
    /// Gives up the memory and the retain of its context, after waiting for copies of this buffer: the host address, and
    /// how many elements are there. The driver is owed a `cuMemFreeHost`; nothing if there is no element, and then there
    /// is no context either.
    ///
    /// # Errors
    /// As [`as_mut_slice`](Self::as_mut_slice), with the buffer as it was.
    #[doc(alias = "cuEventSynchronize")]
    #[doc(alias = "cuEventDestroy")]
    pub fn into_raw_parts(mut self) -> Result<(*mut T, usize, Option<Context>), (Error, Self)> {
        if let Err(error) = self.as_mut_slice() {
            return Err((error, self));
        }
        let (memory, len) = (self.memory.as_ptr(), self.len);
        let Some(owned) = self.owned.take() else { return Ok((memory, len, None)) };
        let mut owned = ManuallyDrop::new(owned);
        // SAFETY: `owned` is never used or dropped again; what else it holds is a lock without content to drop.
        let (pinned, context) = unsafe { (ManuallyDrop::take(&mut owned.pinned), ptr::read(&raw const owned.context)) };
        // SAFETY: the buffer owned the event, and the copies that it marked are done.
        release::report(unsafe { raw::event::event_destroy(context.driver().functions(), pinned.event) });
        Ok((memory, len, Some(context)))
    }

    /// Takes over page-locked memory of `context`: `len` elements at `address`.
    ///
    /// # Errors
    /// [`Error::NullAddress`], [`Error::Misaligned`] and [`Error::SizeOverflow`] before any call; else whatever the
    /// driver answers. The memory is still the caller's then.
    ///
    /// # Safety
    /// Unless there is no element, `address` must come from `cuMemAllocHost` or `cuMemHostAlloc` in that context, or from
    /// [`into_raw_parts`](Self::into_raw_parts) with that context, with at least so many initialised elements; the caller
    /// must own it, and all use of it by devices and others must be done.
    #[doc(alias = "cuEventCreate")]
    pub unsafe fn from_raw_parts(context: &Context, address: *mut T, len: usize) -> Result<Self> {
        let bytes = byte_len::<T>(len)?;
        if bytes == 0 {
            return Ok(Self { memory: NonNull::dangling(), len, owned: None });
        }
        let memory = NonNull::new(address).ok_or(Error::NullAddress)?;
        if !is_aligned(address.addr() as u64, align_of::<T>()) {
            return Err(Error::Misaligned { address: address.addr() as u64, align: align_of::<T>() });
        }
        if bytes > isize::MAX.unsigned_abs() {
            return Err(Error::SizeOverflow { len, size: size_of::<T>() });
        }
        let context = context.try_clone()?;
        let functions = context.driver().functions();
        let event = context.with_current(|| {
            // SAFETY: `with_current` makes the context current that is to own the event.
            unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }
        })?;
        let pinned = ManuallyDrop::new(Memory { address: address.cast(), bytes, event, marked: true });
        let pending = Mutex::new(Pending { uses: Uses::Nothing, copies: 0, stream: 0 });
        Ok(Self { memory, len, owned: Some(Owned { pinned, context, pending }) })
    }
}
