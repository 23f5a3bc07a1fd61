//! Tensors as they pass between libraries: a pointer that must be given to its deleter, once.

use core::{mem::ManuallyDrop, ptr::NonNull};

use super::{
    DlpackError,
    ffi::{DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_READ_ONLY, DLPackVersion},
};
use crate::Result;

/// An owned DLPack tensor, whoever made it. Dropping it calls its deleter.
///
/// It is one word: the pointer that passes between libraries.
#[derive(Debug)]
#[repr(transparent)]
pub struct ManagedTensor(NonNull<DLManagedTensorVersioned>);

// SAFETY: the tensor has one owner, and its maker said that its deleter may be called on any thread.
unsafe impl Send for ManagedTensor {}
// SAFETY: by shared reference it can only be read.
unsafe impl Sync for ManagedTensor {}

impl ManagedTensor {
    /// Takes over the tensor `raw`.
    ///
    /// # Errors
    /// [`DlpackError::Null`].
    ///
    /// # Safety
    /// Unless it is null, `raw` must point to a tensor as DLPack's header describes it, which the caller owns: nobody
    /// else calls its deleter. That may be called on any thread.
    pub unsafe fn from_raw(raw: *mut DLManagedTensorVersioned) -> Result<Self> {
        NonNull::new(raw).map(Self).ok_or(DlpackError::Null.into())
    }

    /// # Safety
    /// As [`from_raw`](Self::from_raw).
    pub(super) const unsafe fn from_non_null(raw: NonNull<DLManagedTensorVersioned>) -> Self {
        Self(raw)
    }

    /// Gives up the tensor: somebody must call its deleter.
    #[must_use = "the tensor stays alive"]
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// The tensor, to look at. What follows its flags has the header's layout only if [`version`](Self::version) says
    /// that the major version is 1.
    #[must_use]
    pub const fn as_raw(&self) -> *const DLManagedTensorVersioned {
        self.0.as_ptr()
    }

    /// The version of its layout.
    #[must_use]
    pub const fn version(&self) -> DLPackVersion {
        // SAFETY: the tensor is live: only `drop` and `into_raw` end it. Every version begins with its number.
        unsafe { (*self.0.as_ptr()).version }
    }

    /// Whether nobody may write the memory.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        // SAFETY: as above; the flags are in the same place in every version.
        unsafe { (*self.0.as_ptr()).flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 }
    }

    /// Asks consumers not to write the memory.
    pub const fn set_read_only(&mut self) {
        // SAFETY: as above, and the tensor is borrowed exclusively.
        unsafe { (*self.0.as_ptr()).flags |= DLPACK_FLAG_BITMASK_READ_ONLY };
    }
}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        let raw = self.0.as_ptr();
        // SAFETY: the tensor is live until its deleter is called, which is in the same place in every version.
        if let Some(delete) = unsafe { (*raw).deleter } {
            // SAFETY: the tensor is owned and ends here.
            unsafe { delete(raw) };
        }
    }
}

const _: () = assert!(size_of::<Option<ManagedTensor>>() == size_of::<*mut DLManagedTensorVersioned>());
