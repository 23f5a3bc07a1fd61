//! The driver: found and loaded once, or handed in as a table of functions.

use std::path::Path;

use cuda_sys::{CUresult, Functions, Library};

use crate::{Device, Error, Result, gate, raw};

/// A CUDA driver that this process can call.
///
/// One word, free to copy; everything made through it remembers it. Loading a driver neither initialises it nor
/// creates a context: that happens when a device is first asked for.
///
/// ```
/// # use cupool::*;
/// # let simulator = cupool_sim::Simulator::new();
/// # let driver = unsafe { Driver::from_functions(simulator.functions()) };
/// # let device = driver.device(0)?;
/// # let context = device.primary_context()?;
/// println!("{} devices, CUDA {}", driver.device_count()?, driver.version()?);
/// for device in driver.devices()? {
///     println!("{}", device?.name()?);
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Driver {
    functions: &'static Functions,
}

impl Driver {
    /// Loads the system's driver: the file named by `CUPOOL_DRIVER_LIBRARY`, else `libcuda.so.1` and its other usual
    /// places (`nvcuda.dll` on Windows). The answer, good or bad, is found once and remembered.
    ///
    /// # Errors
    /// [`Error::Load`] lists every file that was tried and why it was no driver.
    #[doc(alias = "dlopen")]
    #[doc(alias = "cuGetProcAddress")]
    pub fn load() -> Result<Self> {
        Ok(Self { functions: cuda_sys::load()?.functions() })
    }

    /// Loads the driver in the file `path`. It is never unloaded.
    ///
    /// # Errors
    /// [`Error::Load`] says why the file is no driver.
    ///
    /// # Safety
    /// The file's initialisers run, and its functions must behave as the CUDA driver's.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller vouches for the file.
        Ok(Self { functions: unsafe { cuda_sys::load_from(path) }?.functions() })
    }

    /// Takes a table of functions as the driver: a simulated one, or one that was resolved elsewhere.
    ///
    /// # Safety
    /// Every entry must behave as the CUDA driver's entry point of that name, for ever.
    #[must_use]
    pub const unsafe fn from_functions(functions: &'static Functions) -> Self {
        Self { functions }
    }

    /// The table of functions, for calls that this crate does not make.
    #[must_use]
    #[inline]
    pub const fn functions(self) -> &'static Functions {
        self.functions
    }

    /// The library that the driver was loaded from; `None` if it was handed in as a table.
    #[must_use]
    pub fn library(self) -> Option<&'static Library> {
        Library::of(self.functions)
    }

    /// The newest CUDA version that the driver supports, as `1000 * major + 10 * minor`. Needs no initialisation.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuDriverGetVersion")]
    pub fn version(self) -> Result<u32> {
        raw::init::driver_get_version(self.functions).map(|version| u32::try_from(version).unwrap_or(0))
    }

    /// Initialises the driver, if nobody in this process has. The calls that need it do this themselves; a failure is
    /// not remembered, so that a system which was not ready can be asked again.
    ///
    /// # Errors
    /// The driver's code tells what is wrong with the system; [`Error::hint`] what to do about it.
    /// [`Error::ForkedAfterInit`] in a forked child of a process that had initialised CUDA.
    #[doc(alias = "cuInit")]
    pub fn init(self) -> Result<()> {
        raw::init::init(self.functions)?;
        gate::arm()
    }

    /// How many devices this process can see; 0 if there is none or `CUDA_VISIBLE_DEVICES` hides them all.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    #[doc(alias = "cuDeviceGetCount")]
    pub fn device_count(self) -> Result<u32> {
        let count = self.init().and_then(|()| raw::device::device_get_count(self.functions));
        match count {
            Err(error) if error.code() == Some(CUresult::CUDA_ERROR_NO_DEVICE) => Ok(0),
            count => count.map(|count| u32::try_from(count).unwrap_or(0)),
        }
    }

    /// The device with number `ordinal`, counted from 0 in the order that `CUDA_VISIBLE_DEVICES` gives.
    ///
    /// # Errors
    /// As [`init`](Self::init); `CUDA_ERROR_INVALID_DEVICE` if there are not so many.
    #[doc(alias = "cuDeviceGet")]
    pub fn device(self, ordinal: u32) -> Result<Device> {
        self.init()?;
        Device::new(self, ordinal)
    }

    /// Every device that this process can see.
    ///
    /// # Errors
    /// As [`device_count`](Self::device_count).
    pub fn devices(self) -> Result<impl Iterator<Item = Result<Device>>> {
        Ok((0..self.device_count()?).map(move |ordinal| self.device(ordinal)))
    }

    /// Fails unless both are the same driver.
    #[inline]
    pub(crate) fn ensure_same(self, other: Self) -> Result<()> {
        if core::ptr::eq(self.functions, other.functions) { Ok(()) } else { Err(mismatch()) }
    }
}

/// Apart, so that the error takes no room among what is done otherwise.
#[cold]
#[inline(never)]
fn mismatch() -> Error {
    Error::DriverMismatch
}

impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.functions, other.functions)
    }
}

impl Eq for Driver {}

impl core::hash::Hash for Driver {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        core::ptr::hash(self.functions, state);
    }
}

impl core::fmt::Debug for Driver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Driver").field(&core::ptr::from_ref(self.functions)).finish()
    }
}
