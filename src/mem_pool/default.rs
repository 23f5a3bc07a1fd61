//! The default pool's release threshold: raised for as long as somebody wants it raised, and then what it was.
//!
//! The default pool belongs to the whole process, and the driver lets it keep nothing. A guard has it keep memory; no
//! value that somebody else chose is ever overwritten. All guards of a device share one record, since they may end in any
//! order: the threshold is the highest that any of them wants, and 0 after the last.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_sys::CUmemPool_attribute;

use super::MemPool;
use crate::{Device, Result, gate, raw, release};

const THRESHOLD: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

/// Has a device's default pool keep memory, until it is dropped; made by [`MemPool::raise_default_threshold`].
///
/// One that is forgotten leaves the threshold as it is, which costs memory and nothing else.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// let threshold = || MemPool::default_of(&device)?.release_threshold();
/// assert_eq!(threshold()?, 0);
/// let guard = MemPool::raise_default_threshold(&device, 1 << 30)?;
/// assert_eq!(threshold()?, 1 << 30);
/// drop(guard);
/// assert_eq!(threshold()?, 0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the threshold goes back when this is dropped"]
pub struct DefaultThreshold {
    /// `None` where somebody else has set the threshold.
    wish: Option<Wish>,
}

/// What one guard wants, as the record knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    device: Device,
    number: u64,
    bytes: u64,
}

/// The wishes that have not ended, of all devices, and the thresholds that were set on their behalf.
struct Record {
    wishes: Vec<Wish>,
    set: Vec<(Device, u64)>,
    numbers: u64,
}

impl MemPool {
    /// Has the default pool of `device` keep up to `bytes` at synchronisations, which it does for everybody in the
    /// process, until the guard is dropped; a panic that drops it included. Off unless asked for.
    ///
    /// Only a threshold that nobody has set is raised: one that is 0, the driver's own value, or that other such guards
    /// have set (then the highest wish holds). If somebody sets another meanwhile, that one stays, also at the end;
    /// unless it is 0, which looks as if nobody had. After the last guard it is 0 again.
    ///
    /// # Errors
    /// [`Error::PoolsUnsupported`](crate::Error::PoolsUnsupported), or whatever the driver answers; the threshold is then
    /// what it was.
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    pub fn raise_default_threshold(device: &Device, bytes: u64) -> Result<DefaultThreshold> {
        gate::check()?;
        let wish = raw::stream::relaxed(device.driver().functions(), || record().raise(*device, bytes))?;
        Ok(DefaultThreshold { wish })
    }
}

impl DefaultThreshold {
    /// Whether the guard has a say. It has none where the threshold had been set by somebody else.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.wish.is_some()
    }
}

impl Drop for DefaultThreshold {
    fn drop(&mut self) {
        // In a forked child a thread that is no more may hold the record.
        if let Some(wish) = self.wish.take()
            && gate::check().is_ok()
        {
            let functions = wish.device.driver().functions();
            let ended = raw::stream::relaxed(functions, || record().end(wish));
            release::report(ended);
        }
    }
}

impl Record {
    /// The threshold that was set on behalf of the device's wishes.
    fn set_on(&self, device: Device) -> Option<u64> {
        self.set.iter().find(|(of, _)| *of == device).map(|(_, bytes)| *bytes)
    }

    /// The highest that any wish for the device asks for.
    fn wanted_on(&self, device: Device) -> Option<u64> {
        self.wishes.iter().filter(|wish| wish.device == device).map(|wish| wish.bytes).max()
    }

    fn note_set(&mut self, device: Device, bytes: u64) {
        self.set.retain(|(of, _)| *of != device);
        if bytes != 0 {
            self.set.push((device, bytes));
        }
    }

    /// One wish more, unless somebody else has set the threshold.
    fn raise(&mut self, device: Device, bytes: u64) -> Result<Option<Wish>> {
        let pool = MemPool::default_of(&device)?;
        let now = pool.bytes(THRESHOLD)?;
        if bytes == 0 || now != 0 && self.set_on(device) != Some(now) {
            return Ok(None);
        }
        let wanted = self.wanted_on(device).unwrap_or(0).max(bytes);
        if wanted != now {
            pool.set_bytes(THRESHOLD, wanted)?;
        }
        self.note_set(device, wanted);
        self.numbers += 1;
        let wish = Wish { device, number: self.numbers, bytes };
        self.wishes.push(wish);
        Ok(Some(wish))
    }

    /// One wish less: lowers the threshold to what the others want.
    fn end(&mut self, wish: Wish) -> Result<()> {
        self.wishes.retain(|other| *other != wish);
        let wanted = self.wanted_on(wish.device);
        let Some(set) = self.set_on(wish.device) else { return Ok(()) };
        // What could not be lowered stays on record, for the next guard to lower.
        self.lower(wish.device, set, wanted.unwrap_or(0))?;
        if wanted.is_none() {
            self.note_set(wish.device, 0);
        }
        Ok(())
    }

    /// Unless somebody else has changed it.
    fn lower(&mut self, device: Device, set: u64, wanted: u64) -> Result<()> {
        if set == wanted {
            return Ok(());
        }
        let pool = MemPool::default_of(&device)?;
        if pool.bytes(THRESHOLD)? == set {
            pool.set_bytes(THRESHOLD, wanted)?;
            self.note_set(device, wanted);
        }
        Ok(())
    }
}

/// Guards come and go rarely. Nothing that is done under the lock waits for the device, or calls anybody's code: failures
/// are reported, and the capture mode is restored, after it.
fn record() -> MutexGuard<'static, Record> {
    static RECORD: Mutex<Record> = Mutex::new(Record { wishes: Vec::new(), set: Vec::new(), numbers: 0 });
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}
