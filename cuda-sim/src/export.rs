//! The functions that the shared library exports, as `libcuda` does: enough for a loader that asks `cuGetProcAddress`
//! for all others, and for one that looks up `cuInit` and `cuDriverGetVersion` by name.
//!
//! Whether a copy of the library is all that the simulated driver is, says the file beside it: see [`sidecar`]. It is
//! read anew at every call, so it may be changed while the library is open.
#![allow(non_snake_case, reason = "named as the driver names them")]

mod sidecar;

use core::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};
use std::path::PathBuf;

use cuda_sys::{CUdriverProcAddressQueryResult, CUresult, Symbol, cuuint64_t};

use self::sidecar::Sidecar;

/// How many times `cuInit` was called in this copy of the library.
static INITS: AtomicU64 = AtomicU64::new(0);

/// The driver's `cuInit`.
///
/// # Safety
/// As in CUDA's documentation.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuInit(flags: c_uint) -> CUresult {
    INITS.fetch_add(1, Ordering::Relaxed);
    match this_copy() {
        Err(code) => code,
        Ok(Sidecar { init: Some(code), .. }) => code,
        // SAFETY: the caller's promise is the one that the simulated driver asks for.
        Ok(_) => unsafe { (crate::functions().cuInit)(flags) },
    }
}

/// The driver's `cuDriverGetVersion`.
///
/// # Safety
/// `version` must be null or valid for a write.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    let stated = match this_copy() {
        Err(code) => return code,
        Ok(_) if version.is_null() => return CUresult::CUDA_ERROR_INVALID_VALUE,
        Ok(sidecar) => driver_version(&sidecar),
    };
    match c_int::try_from(stated) {
        Ok(stated) => {
            // SAFETY: not null, so valid for a write, says the caller.
            unsafe { version.write(stated) };
            CUresult::CUDA_SUCCESS
        }
        Err(_) => CUresult::CUDA_ERROR_INVALID_VALUE,
    }
}

/// The driver's `cuGetProcAddress` of CUDA 11.3, which reports a missing function as an error.
///
/// # Safety
/// `symbol` must be null or a C string, `function` null or valid for a write.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: cuuint64_t,
) -> CUresult {
    let mut status = CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    // SAFETY: the caller vouches for `symbol` and `function`; `status` outlives the call.
    let code = unsafe { cuGetProcAddress_v2(symbol, function, version, flags, &mut status) };
    if code == CUresult::CUDA_SUCCESS && status != CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    code
}

/// The driver's `cuGetProcAddress` of CUDA 12.0, which reports a missing function as a null pointer and a status.
///
/// # Safety
/// `symbol` must be null or a C string, `function` and `status` null or valid for a write.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    _flags: cuuint64_t,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    let sidecar = match this_copy() {
        Err(code) => return code,
        Ok(sidecar) => sidecar,
    };
    let Ok(version) = u32::try_from(version) else { return CUresult::CUDA_ERROR_INVALID_VALUE };
    if symbol.is_null() || function.is_null() {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: not null, so a C string, says the caller.
    let (address, found) = look_up(unsafe { CStr::from_ptr(symbol) }, version, &sidecar);
    // SAFETY: not null, so valid for writes, says the caller.
    unsafe {
        function.write(address);
        if !status.is_null() {
            status.write(found);
        }
    }
    CUresult::CUDA_SUCCESS
}

/// How many times `cuInit` was called in this copy of the library. No driver has this function.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cupool_sim_inits() -> u64 {
    INITS.load(Ordering::Relaxed)
}

/// How this copy differs; or the code that it answers every call with.
fn this_copy() -> Result<Sidecar, CUresult> {
    let sidecar = this_file().map_or_else(|| Ok(Sidecar::default()), |file| Sidecar::beside(&file));
    match sidecar {
        Ok(Sidecar { stub: true, .. }) => Err(CUresult::CUDA_ERROR_STUB_LIBRARY),
        Ok(sidecar) => Ok(sidecar),
        Err(error) => {
            eprintln!("simulated driver: {error}");
            Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM)
        }
    }
}

/// The file that this code was loaded from.
#[cfg(unix)]
fn this_file() -> Option<PathBuf> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address and writes `info` only.
    let found = unsafe { libc::dladdr(cuInit as *const c_void, info.as_mut_ptr()) } != 0;
    // SAFETY: all zeroes are a valid `Dl_info`, and so is what `dladdr` writes.
    let name = unsafe { info.assume_init() }.dli_fname;
    if !found || name.is_null() {
        return None;
    }
    // SAFETY: on success `dli_fname` is a string that lives as long as the library.
    Some(PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes())))
}

/// Elsewhere every copy is the whole driver.
#[cfg(not(unix))]
fn this_file() -> Option<PathBuf> {
    None
}

fn driver_version(sidecar: &Sidecar) -> u32 {
    sidecar.version.unwrap_or_else(|| {
        let mut version = 0;
        // SAFETY: `version` outlives the call.
        let code = unsafe { (crate::functions().cuDriverGetVersion)(&mut version) };
        if code == CUresult::CUDA_SUCCESS { u32::try_from(version).unwrap_or(0) } else { 0 }
    })
}

/// The function called `name` as of CUDA `version`: of its signatures the newest that is no newer than that.
fn look_up(name: &CStr, version: u32, sidecar: &Sidecar) -> (*mut c_void, CUdriverProcAddressQueryResult) {
    use CUdriverProcAddressQueryResult as Found;

    let missing = |status| (ptr::null_mut(), status);
    match name.to_bytes() {
        b"cuGetProcAddress" if version >= 12000 => {
            return (cuGetProcAddress_v2 as *mut c_void, Found::CU_GET_PROC_ADDRESS_SUCCESS);
        }
        b"cuGetProcAddress" => return (cuGetProcAddress as *mut c_void, Found::CU_GET_PROC_ADDRESS_SUCCESS),
        _ => {}
    }
    let signatures = || Symbol::ALL.iter().copied().filter(|symbol| symbol.name() == name);
    if signatures().next().is_none() {
        return missing(Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    let known = signatures().filter(|symbol| symbol.since() <= version);
    let Some(symbol) = known.max_by_key(|symbol| symbol.since()) else {
        return missing(Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    };
    if version > driver_version(sidecar) {
        return missing(Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    }
    let address = match symbol {
        symbol if sidecar.without.contains(&symbol) => ptr::null_mut(),
        // These two answer differently from copy to copy.
        Symbol::cuInit => cuInit as *mut c_void,
        Symbol::cuDriverGetVersion => cuDriverGetVersion as *mut c_void,
        symbol => crate::functions().address(symbol),
    };
    if address.is_null() {
        return missing(Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    (address, Found::CU_GET_PROC_ADDRESS_SUCCESS)
}
