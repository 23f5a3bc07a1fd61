//! Which devices reach a pool's memory: asked, granted and taken back, one device a call.
//!
//! That contexts may access each other's memory says nothing about pools: each grants it by itself. Granting is always
//! safe: what could be done before still can. Taking back is not: work of the peer that is still under way would find
//! its memory gone, which ends the peer's context in a fault. So access is taken back only from a pool whose memory
//! nobody has, or else on the caller's word.
//!
//! There is one more way to get access than to be granted it: the driver hands the handle of a pool that is gone to a
//! later pool, and with it, by a fault of some drivers, the access that was granted to the former. So what was granted
//! is taken back before a pool is destroyed; where its memory is still in use then, from the next pool with its handle.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_sys::{CUdevice, CUmemAccess_flags, CUmemAccessDesc_v1, CUmemLocation, CUmemLocationType};

use super::MemPool;
use crate::{Device, Driver, Error, Result, gate, raw, release};

/// What a device can do with a pool's memory.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::builder().devices(2).build();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// let mut pool = MemPool::new(&device)?;
/// let peer = driver.device(1)?;
/// assert_eq!(pool.access_of(&peer)?, Access::None);
/// pool.grant(&peer, Access::ReadWrite)?;
/// assert_eq!(pool.access_of(&peer)?, Access::ReadWrite);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

impl Access {
    const fn flags(self) -> CUmemAccess_flags {
        match self {
            Self::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            Self::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Self::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }
    }

    fn of(flags: CUmemAccess_flags) -> Result<Self> {
        match flags {
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => Ok(Self::None),
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => Ok(Self::Read),
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE => Ok(Self::ReadWrite),
            CUmemAccess_flags(flags) => Err(Error::UnknownAccess { flags }),
        }
    }
}

impl MemPool {
    /// What `device` can do with the pool's memory; asked of the driver each time. The pool's own device can do all.
    ///
    /// # Errors
    /// [`Error::DriverMismatch`], [`Error::UnknownAccess`], or whatever the driver answers.
    #[doc(alias = "cuMemPoolGetAccess")]
    #[doc(alias = "cudaMemPoolGetAccess")]
    pub fn access_of(&self, device: &Device) -> Result<Access> {
        self.driver().ensure_same(device.driver())?;
        // SAFETY: the pool is borrowed, hence live.
        let flags = unsafe {
            raw::mem_pool::mem_pool_get_access(self.driver().functions(), self.as_raw(), at(device.as_raw()))?
        };
        Access::of(flags)
    }

    /// Lets `device` do at least `access` with the pool's memory, that of buffers that exist included. Nothing is taken
    /// away: a device that may write keeps that when reading is granted. The pool's own device needs no grant, and gets
    /// no call. (The driver refuses, and applies nothing, if a pool's own device is told anything but to read and
    /// write.)
    ///
    /// Before the driver is told it is asked whether the device can reach this memory at all: a grant to one that cannot
    /// may succeed, and the first use fail. What is granted is taken back when the pool is dropped, if nobody has memory
    /// of it by then; if somebody has, access lasts as long as the memory does.
    ///
    /// # Errors
    /// [`Error::PeerAccessUnsupported`] and [`Error::DriverMismatch`] before anything is changed; else whatever the
    /// driver answers.
    #[doc(alias = "cuMemPoolSetAccess")]
    #[doc(alias = "cudaMemPoolSetAccess")]
    #[doc(alias = "cuDeviceCanAccessPeer")]
    pub fn grant(&mut self, device: &Device, access: Access) -> Result<()> {
        self.driver().ensure_same(device.driver())?;
        if self.is_own(*device) || access == Access::None {
            return Ok(());
        }
        if !self.is_on_host() && !device.can_access_peer(self.device())? {
            return Err(Error::PeerAccessUnsupported { device: device.as_raw(), owner: self.device().as_raw() });
        }
        // Told even where it has it already: a handle that was another pool's before may answer for that one.
        let access = access.max(self.access_of(device)?);
        // SAFETY: nothing is taken away.
        unsafe { self.set_access(device.as_raw(), access)? };
        if !self.granted.contains(&device.as_raw()) {
            self.granted.push(device.as_raw());
        }
        Ok(())
    }

    /// Takes back what `device` can do with the pool's memory, which nobody may have any more: work of the device that
    /// is under way would fault, and with it everything in its context. To make sure of that the pool first gives back
    /// all memory that is free, as [`trim_to(0)`](Self::trim_to) does.
    ///
    /// # Errors
    /// [`Error::PoolInUse`] if memory of the pool is still allocated, or waits for a stream to reach a free: drop the
    /// buffers, synchronise their streams, and try again. [`Error::OwnAccess`] for the pool's own device, and
    /// [`Error::DriverMismatch`], before any call; else whatever the driver answers.
    #[doc(alias = "cuMemPoolSetAccess")]
    #[doc(alias = "cudaMemPoolSetAccess")]
    pub fn revoke(&mut self, device: &Device) -> Result<()> {
        self.ensure_peer(*device)?;
        let held = self.trim_to(0)?.reserved;
        if held != 0 {
            return Err(Error::PoolInUse { held });
        }
        // SAFETY: the pool holds no memory: no allocation of it lives, and none waits to be freed, so no work of the
        // device can use one; the exclusive borrow keeps others from allocating.
        unsafe { self.revoke_in_use(device) }
    }

    /// As [`revoke`](Self::revoke), also while the pool's memory is in use. One call, which gives nothing back.
    ///
    /// # Errors
    /// As there, but for [`Error::PoolInUse`].
    ///
    /// # Safety
    /// No work of `device` that uses memory of this pool may be under way, nor be given to it while it has no access.
    #[doc(alias = "cuMemPoolSetAccess")]
    pub unsafe fn revoke_in_use(&mut self, device: &Device) -> Result<()> {
        self.ensure_peer(*device)?;
        // SAFETY: the caller vouches for the device's work.
        unsafe { self.set_access(device.as_raw(), Access::None)? };
        self.granted.retain(|granted| *granted != device.as_raw());
        Ok(())
    }

    fn ensure_peer(&self, device: Device) -> Result<()> {
        self.driver().ensure_same(device.driver())?;
        if self.is_own(device) { Err(Error::OwnAccess { device: device.as_raw() }) } else { Ok(()) }
    }

    /// Whether the memory lies on that device.
    fn is_own(&self, device: Device) -> bool {
        self.device() == device && !self.is_on_host()
    }

    /// Whether it was made to lie in the host's memory, where no device owns it.
    fn is_on_host(&self) -> bool {
        self.made.is_some_and(|made| made.location.is_host())
    }

    /// # Safety
    /// If that is less than the device had, no work of it may use memory of this pool from now on.
    pub(super) unsafe fn set_access(&self, device: CUdevice, access: Access) -> Result<()> {
        let description = CUmemAccessDesc_v1 { location: at(device), flags: access.flags() };
        // SAFETY: the pool is borrowed, hence live; the caller vouches for the device's work.
        unsafe { raw::mem_pool::mem_pool_set_access(self.driver().functions(), self.as_raw(), &description) }
    }

    /// Before the pool is destroyed: takes back what was granted, or has it taken back from the handle's next pool.
    pub(super) fn end_access(&mut self) {
        if self.granted.is_empty() || gate::check().is_err() {
            return;
        }
        let idle = self.trim_to(0).map(|trimmed| trimmed.reserved == 0);
        let devices = core::mem::take(&mut self.granted);
        if idle != Ok(true) {
            release::report(idle.map(drop));
            return inherited().push(Inherited { driver: self.driver(), pool: self.as_raw().addr(), devices });
        }
        for device in devices {
            // SAFETY: the pool holds no memory, and is exclusively ours.
            release::report(unsafe { self.set_access(device, Access::None) });
        }
    }

    /// After the pool was made: takes back what a former pool with its handle had granted.
    pub(super) fn clear_inherited_access(&self) -> Result<()> {
        while let Some(former) = self.take_inherited() {
            if let Err(error) = former.devices.iter().try_for_each(|device| self.clear_inherited(*device)) {
                inherited().push(former);
                return Err(error);
            }
        }
        Ok(())
    }

    fn clear_inherited(&self, device: CUdevice) -> Result<()> {
        let former = Device::from_raw(self.driver(), device);
        // The driver refuses where the device owns the memory, which is never taken from it, or cannot reach it.
        if self.is_own(former) || !self.is_on_host() && !former.can_access_peer(self.device())? {
            return Ok(());
        }
        // SAFETY: the pool has just been made, so nobody has memory of it.
        unsafe { self.set_access(device, Access::None) }
    }

    fn take_inherited(&self) -> Option<Inherited> {
        let mut inherited = inherited();
        let at = inherited.iter().position(|of| of.driver == self.driver() && of.pool == self.as_raw().addr())?;
        Some(inherited.swap_remove(at))
    }
}

/// Access that was not taken back from a pool before it was destroyed.
struct Inherited {
    driver: Driver,
    pool: usize,
    devices: Vec<CUdevice>,
}

/// No longer than as many pools as lived at once, since the driver gives handles out again.
fn inherited() -> MutexGuard<'static, Vec<Inherited>> {
    static INHERITED: Mutex<Vec<Inherited>> = Mutex::new(Vec::new());
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn at(device: CUdevice) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}
