//! Questions about an address: what memory is it, whose, and where does it begin?

use core::ffi::{c_int, c_uint};

use bytemuck::Pod;
use cuda_sys::{CUdeviceptr_v2, CUmemoryPool, CUmemorytype_enum, CUpointer_attribute};

use crate::{Device, DeviceSlice, Driver, Result, raw};

/// What the driver knows about the memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointerInfo {
    /// Where the memory is. Managed memory, which moves, counts as the device's.
    pub kind: MemoryKind,
    /// The device that it was allocated on or registered with; `None` if it belongs to none.
    pub device: Option<Device>,
    /// Where the allocation that the address lies in begins; 0 if the driver does not say.
    pub start: CUdeviceptr_v2,
    /// Bytes in that allocation, from `start`; 0 if the driver does not say.
    pub byte_len: usize,
    /// Whether it is managed memory.
    pub is_managed: bool,
    /// The pool that it was allocated from, if it was; to be looked at only, since whoever made the pool may end it.
    pub pool: Option<CUmemoryPool>,
    /// Whether `cuIpcGetMemHandle` can share it with another process. Memory of pools and managed memory cannot be
    /// shared so.
    pub is_legacy_ipc_capable: bool,
    /// A number that no other allocation of the process ever has: addresses are reused, these are not.
    pub buffer_id: u64,
    /// Whether there is memory behind the address, not only a reservation.
    pub is_mapped: bool,
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// In the host's memory, and page-locked.
    Host,
    /// In a device's memory, or managed.
    Device,
    /// A kind of memory with this number, which this crate has no name for.
    Other(u32),
}

// SAFETY: the pool's handle is a number here, which nothing is done with.
unsafe impl Send for PointerInfo {}
// SAFETY: as above.
unsafe impl Sync for PointerInfo {}

impl Driver {
    /// What the driver knows about `address`; `None` if it does not know the address at all, as that of ordinary host
    /// memory. The answer is a snapshot: nothing keeps the memory as it is.
    ///
    /// [`DeviceSlice::pointer_info`] is the same for memory of this crate's, and safe.
    ///
    /// # Errors
    /// As [`init`](Self::init), or whatever the driver answers. That an address is unknown is no error.
    ///
    /// # Safety
    /// `address` must not be that of memory that has been freed in stream order: CUDA leaves undefined what comes of a
    /// question about that. Any other number will do, and memory that lives may be freed afterwards.
    #[doc(alias = "cuPointerGetAttributes")]
    #[doc(alias = "cuMemGetAddressRange")]
    #[doc(alias = "cudaPointerGetAttributes")]
    pub unsafe fn pointer_info(self, address: CUdeviceptr_v2) -> Result<Option<PointerInfo>> {
        use CUpointer_attribute as A;

        self.init()?;
        let mut kind = CUmemorytype_enum(0);
        let mut ordinal: c_int = -1;
        let (mut start, mut byte_len, mut buffer_id) = (0_u64, 0_usize, 0_u64);
        let [mut managed, mut legacy, mut mapped]: [c_uint; 3] = [0; 3];
        let mut pool: CUmemoryPool = core::ptr::null_mut();
        let attributes = [
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            A::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            A::CU_POINTER_ATTRIBUTE_BUFFER_ID,
            A::CU_POINTER_ATTRIBUTE_IS_MANAGED,
            A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
            A::CU_POINTER_ATTRIBUTE_MAPPED,
            A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        ];
        let values = [
            (&raw mut kind).cast(),
            (&raw mut ordinal).cast(),
            (&raw mut start).cast(),
            (&raw mut byte_len).cast(),
            (&raw mut buffer_id).cast(),
            // Documented as a boolean, of one byte or four: whichever the driver writes, the rest stays 0.
            (&raw mut managed).cast(),
            (&raw mut legacy).cast(),
            (&raw mut mapped).cast(),
            (&raw mut pool).cast(),
        ];
        // SAFETY: each attribute has the place of its type, or of a wider one; the caller vouches for the address.
        unsafe { raw::pointer::pointer_get_attributes(self.functions(), attributes, values, address)? };
        let kind = match kind {
            CUmemorytype_enum(0) => return Ok(None),
            CUmemorytype_enum::CU_MEMORYTYPE_HOST => MemoryKind::Host,
            CUmemorytype_enum::CU_MEMORYTYPE_DEVICE => MemoryKind::Device,
            CUmemorytype_enum(other) => MemoryKind::Other(other),
        };
        Ok(Some(PointerInfo {
            kind,
            device: (ordinal >= 0).then(|| Device::from_raw(self, ordinal)),
            start,
            byte_len,
            is_managed: managed != 0,
            pool: (!pool.is_null()).then_some(pool),
            is_legacy_ipc_capable: legacy != 0,
            buffer_id,
            is_mapped: mapped != 0,
        }))
    }

    /// Whether there is managed memory at `address`.
    ///
    /// # Safety
    /// There must be live memory of the driver's.
    pub(crate) unsafe fn is_managed(self, address: CUdeviceptr_v2) -> Result<bool> {
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
        // SAFETY: the attribute is a boolean; the caller vouches for the address.
        unsafe { raw::pointer::pointer_get_flag(self.functions(), attribute, address) }
    }
}

impl<T: Pod> DeviceSlice<'_, T> {
    /// What the driver knows about the memory; `None` if there is none because there is nothing to hold.
    ///
    /// ```
    /// # use cupool::*;
    /// # let simulator = cupool_sim::Simulator::new();
    /// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
    /// # let device = driver.device(0)?;
    /// # let context = device.primary_context()?;
    /// let stream = Stream::new(&context)?;
    /// let buffer = MemPool::new(&device)?.alloc::<u32, _>(100, &stream)?;
    /// let info = buffer.slice(2..)?.pointer_info()?.expect("it holds something");
    /// assert_eq!((info.kind, info.start), (MemoryKind::Device, buffer.as_raw()));
    /// assert!(!info.is_legacy_ipc_capable);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LoanForgotten`](crate::Error::LoanForgotten), or whatever the driver answers.
    #[doc(alias = "cuPointerGetAttributes")]
    pub fn pointer_info(&self) -> Result<Option<PointerInfo>> {
        if self.byte_len() == 0 {
            return Ok(None);
        }
        self.ensure_usable()?;
        // SAFETY: the memory lives for as long as the view.
        unsafe { self.home().driver().pointer_info(self.as_raw()) }
    }
}
