//! The kinds of handle by which a pool can be shared with another process.

use core::fmt;

use cuda_sys::CUmemAllocationHandleType;

/// By which kinds of handle a pool can be exported: chosen when it is made, and fixed from then on.
///
/// A pool that can be exported cannot allocate on a stream that is being captured. Which kinds a device has says
/// [`Device::mem_pool_supported_handle_types`](crate::Device::mem_pool_supported_handle_types).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct HandleTypes(u32);

impl HandleTypes {
    /// The pool stays in this process.
    pub const NONE: Self = Self(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE.0);
    /// A file descriptor, for a process on the same host. Not on Windows.
    pub const POSIX_FD: Self = Self(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0);
    /// A plain value, for a process on any host of the same NVLink fabric that has access to the same IMEX channel.
    /// Since CUDA 12.3.
    pub const FABRIC: Self = Self(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC.0);

    /// The kinds of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether these are all among them.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The driver's mask.
    #[must_use]
    pub const fn as_raw(self) -> CUmemAllocationHandleType {
        CUmemAllocationHandleType(self.0)
    }
}

impl fmt::Debug for HandleTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("NONE"),
            Self::POSIX_FD => f.write_str("POSIX_FD"),
            Self::FABRIC => f.write_str("FABRIC"),
            Self(both) if both == Self::POSIX_FD.union(Self::FABRIC).0 => f.write_str("POSIX_FD | FABRIC"),
            Self(other) => write!(f, "{other:#x}"),
        }
    }
}
