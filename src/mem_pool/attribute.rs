//! What a pool can be asked and told: thresholds, reuse, memory used and held.
//!
//! Every call here is made in the relaxed capture mode, since the driver would invalidate a capture elsewhere in the
//! process otherwise.

use core::ffi::c_int;

use cuda_sys::CUmemPool_attribute;

use super::MemPool;
use crate::{Error, Result, raw};

/// What a pool's memory is doing, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemPoolUsage {
    /// Allocated to buffers, as they asked for it. Falls when a free is enqueued, not when it is carried out.
    pub used: u64,
    /// The most that was used since the last [`reset_peaks`](MemPool::reset_peaks).
    pub used_high: u64,
    /// Held by the pool: used, free to be reused, or still waiting for a stream to reach a free.
    pub reserved: u64,
    /// The most that was held since the last [`reset_peaks`](MemPool::reset_peaks).
    pub reserved_high: u64,
}

impl MemPool {
    /// What the pool's memory is doing. The four figures are read one after the other; other threads may come between.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "CU_MEMPOOL_ATTR_USED_MEM_CURRENT")]
    #[doc(alias = "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn usage(&self) -> Result<MemPoolUsage> {
        self.relaxed(|| {
            Ok(MemPoolUsage {
                used: self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
                used_high: self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
                reserved: self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
                reserved_high: self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
            })
        })
    }

    /// Lets the two high-water marks of [`usage`](Self::usage) start anew from what is used and held now.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "CU_MEMPOOL_ATTR_USED_MEM_HIGH")]
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn reset_peaks(&mut self) -> Result<()> {
        self.relaxed(|| {
            self.set_bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)?;
            self.set_bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)
        })
    }

    /// How many bytes the pool may keep when a stream, event or context is synchronised.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    #[doc(alias = "cuMemPoolGetAttribute")]
    pub fn release_threshold(&self) -> Result<u64> {
        self.relaxed(|| self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
    }

    /// Sets how many bytes the pool may keep when a stream, event or context is synchronised. Only an owner can: the
    /// default pool and other borrowed ones belong to others too.
    ///
    /// # Errors
    /// [`Error::AttributeNotKept`] if the driver took the value and has another; else whatever the driver answers.
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    #[doc(alias = "cuMemPoolSetAttribute")]
    pub fn set_release_threshold(&mut self, bytes: u64) -> Result<()> {
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        self.relaxed(|| {
            self.set_bytes(attribute, bytes)?;
            kept(attribute, bytes, self.bytes(attribute)?)
        })
    }

    /// How many bytes the most that the pool ever held lies above its release threshold: 0 if the pool can keep all that
    /// its users need at a time. A pool that falls short gives memory back at every synchronisation and takes it again
    /// afterwards, which is slow, and which another process that takes it meanwhile makes fail. Compares
    /// [`reserved_high`](MemPoolUsage::reserved_high) with [`release_threshold`](Self::release_threshold).
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH")]
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    pub fn threshold_shortfall(&self) -> Result<u64> {
        self.relaxed(|| {
            let most = self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?;
            let kept = self.bytes(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)?;
            Ok(most.saturating_sub(kept))
        })
    }

    pub(super) fn relaxed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        raw::stream::relaxed(self.driver().functions(), work)
    }

    pub(super) fn bytes(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        // SAFETY: the pool is borrowed, hence live; callers pass attributes that count bytes, which are `cuuint64_t`.
        unsafe { raw::mem_pool::mem_pool_get_attribute(self.driver().functions(), self.as_raw(), attribute) }
    }

    pub(super) fn set_bytes(&self, attribute: CUmemPool_attribute, bytes: u64) -> Result<()> {
        // SAFETY: as in `bytes`.
        unsafe { raw::mem_pool::mem_pool_set_attribute(self.driver().functions(), self.as_raw(), attribute, bytes) }
    }

    fn flag(&self, attribute: CUmemPool_attribute) -> Result<bool> {
        self.relaxed(|| self.read_flag(attribute))
    }

    fn read_flag(&self, attribute: CUmemPool_attribute) -> Result<bool> {
        // SAFETY: the pool is borrowed, hence live; callers pass the reuse policies, which are `int`.
        let value: c_int =
            unsafe { raw::mem_pool::mem_pool_get_attribute(self.driver().functions(), self.as_raw(), attribute)? };
        Ok(value != 0)
    }

    fn set_flag(&self, attribute: CUmemPool_attribute, on: bool) -> Result<()> {
        self.relaxed(|| {
            let value = c_int::from(on);
            // SAFETY: as in `read_flag`.
            unsafe {
                raw::mem_pool::mem_pool_set_attribute(self.driver().functions(), self.as_raw(), attribute, value)?
            };
            kept(attribute, on.into(), self.read_flag(attribute)?.into())
        })
    }
}

/// Fails where a driver took a value and kept another.
fn kept(attribute: CUmemPool_attribute, set: u64, read: u64) -> Result<()> {
    if set == read { Ok(()) } else { Err(Error::AttributeNotKept { attribute, set, read }) }
}

/// The policies by which freed memory may be reused on another stream than that of its free.
macro_rules! reuse_policies {
    ($( $(#[$doc:meta])* $name:ident, $set:ident: $attribute:ident; )*) => {
        impl MemPool { $(
            $(#[$doc])*
            ///
            /// # Errors
            /// Whatever the driver answers.
            ///
            #[doc = concat!("The driver calls it `", stringify!($attribute), "`.")]
            pub fn $name(&self) -> Result<bool> {
                self.flag(CUmemPool_attribute::$attribute)
            }

            #[doc = concat!("Sets [`", stringify!($name), "`](Self::", stringify!($name), ").")]
            ///
            /// # Errors
            /// [`Error::AttributeNotKept`] if the driver took the value and has another; else whatever it answers.
            ///
            #[doc = concat!("The driver calls it `", stringify!($attribute), "`.")]
            pub fn $set(&mut self, on: bool) -> Result<()> {
                self.set_flag(CUmemPool_attribute::$attribute, on)
            }
        )* }
    };
}

reuse_policies! {
    /// Whether memory may be reused where events show that its free comes before. On by default.
    reuse_follow_event_dependencies, set_reuse_follow_event_dependencies:
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
    /// Whether memory may be reused once its free happens to be done, although nothing orders the streams. On by
    /// default, but in pools that are made here on drivers before CUDA 11.5; makes the addresses that allocations get depend on timing.
    reuse_allow_opportunistic, set_reuse_allow_opportunistic: CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
    /// Whether the driver may make a stream wait for another in order to reuse memory. On by default.
    reuse_allow_internal_dependencies, set_reuse_allow_internal_dependencies:
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}
