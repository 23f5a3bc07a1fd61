//! How a pool was made: what the driver says of it, or else what it was asked for.
//!
//! Drivers can be asked since CUDA 13.2. An older one is taken to have done what it was told; of a pool that somebody
//! else made it says nothing.

use core::ffi::c_int;

use cuda_sys::{CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute as Attribute, CUresult};

use super::{MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolProperties};
use crate::{Error, Result, raw};

impl MemPool {
    /// Where the memory lies; `None` for a place that is newer than this crate, that this process cannot see, or that
    /// is another device's.
    ///
    /// # Errors
    /// [`Error::AttributeUnsupported`] before CUDA 13.2, unless this is the value that [`new`](Self::new) or
    /// [`with_properties`](Self::with_properties) made; else whatever the driver answers.
    #[doc(alias = "CU_MEMPOOL_ATTR_LOCATION_TYPE")]
    #[doc(alias = "CU_MEMPOOL_ATTR_LOCATION_ID")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn location(&self) -> Result<Option<MemPoolLocation>> {
        let said = self.relaxed(|| {
            // SAFETY: these are the types that the driver's documentation gives.
            let (type_, id) = unsafe {
                let type_: CUmemLocationType = self.newer(Attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE)?;
                (type_, self.newer::<c_int>(Attribute::CU_MEMPOOL_ATTR_LOCATION_ID)?)
            };
            Ok(MemPoolLocation::from_raw(CUmemLocation { type_, id }, self.device()))
        });
        self.or_as_made(said, |made| Some(made.location))
    }

    /// Whether the memory stays there; `None` for a kind that is newer than this crate.
    ///
    /// # Errors
    /// As [`location`](Self::location).
    #[doc(alias = "CU_MEMPOOL_ATTR_ALLOCATION_TYPE")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn kind(&self) -> Result<Option<MemKind>> {
        let said = self.relaxed(|| {
            // SAFETY: this is the type that the driver's documentation gives.
            let kind: CUmemAllocationType = unsafe { self.newer(Attribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE)? };
            Ok(MemKind::from_raw(kind))
        });
        self.or_as_made(said, |made| Some(made.kind))
    }

    /// How many bytes the pool may hold at all; 0 is no limit. The driver says how far it rounded what was asked for; of
    /// managed and imported pools it says what the system allows.
    ///
    /// # Errors
    /// As [`location`](Self::location).
    #[doc(alias = "CU_MEMPOOL_ATTR_MAX_POOL_SIZE")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn max_size(&self) -> Result<u64> {
        // SAFETY: this is the type that the driver's documentation gives.
        let said = self.relaxed(|| unsafe { self.newer(Attribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE) });
        self.or_as_made(said, |made| made.max_size as u64)
    }

    /// By which handles other processes may be given the pool; none if it was imported.
    ///
    /// # Errors
    /// As [`location`](Self::location).
    #[doc(alias = "CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn handle_types(&self) -> Result<MemHandleTypes> {
        let said = self.relaxed(|| {
            // SAFETY: this is the type that the driver's documentation gives, an `enum` of as many bits.
            Ok(MemHandleTypes::from_bits(unsafe { self.newer(Attribute::CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES)? }))
        });
        self.or_as_made(said, |made| made.handle_types)
    }

    /// Whether the memory is such as the decompression engine reads.
    ///
    /// # Errors
    /// As [`location`](Self::location).
    #[doc(alias = "CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn hw_decompress(&self) -> Result<bool> {
        let said = self.relaxed(|| {
            // SAFETY: this is the type that the driver's documentation gives.
            let on: c_int = unsafe { self.newer(Attribute::CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED)? };
            Ok(on != 0)
        });
        self.or_as_made(said, |made| made.hw_decompress)
    }

    /// An attribute that older drivers lack. They say of one that they do not know that the value is invalid, and
    /// nothing else that is passed here can be.
    ///
    /// # Safety
    /// `V` must be the type that the driver's documentation gives for `attribute`.
    unsafe fn newer<V>(&self, attribute: Attribute) -> Result<V> {
        let functions = self.driver().functions();
        // SAFETY: the pool is borrowed, hence live; the caller vouches for the type.
        match unsafe { raw::mem_pool::mem_pool_get_attribute(functions, self.as_raw(), attribute) } {
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_INVALID_VALUE) => {
                Err(Error::AttributeUnsupported(attribute))
            }
            answer => answer,
        }
    }

    fn or_as_made<R>(&self, said: Result<R>, asked_for: impl FnOnce(&MemPoolProperties) -> R) -> Result<R> {
        match (said, &self.made) {
            (Err(Error::AttributeUnsupported(_)), Some(made)) => Ok(asked_for(made)),
            (said, _) => said,
        }
    }
}
