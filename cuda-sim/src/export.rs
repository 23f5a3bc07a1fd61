//! The functions that the shared library exports: those of the driver under the names that `libcuda` exports them by, for
//! loaders that ask the linker for each (see [`by_name`]), and the look-up, for loaders that ask `cuGetProcAddress`; and
//! [a few of its own](own).
//!
//! Whether a copy of the library is all that the simulated driver is, says the file beside it: see [`sidecar`]. It is
//! read anew at every call, so it may be changed while the library is open.

mod by_name;
mod own;
mod sidecar;

use core::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};
use std::path::PathBuf;

use cuda_sys::{CUdriverProcAddressQueryResult, CUresult, Symbol, cuuint64_t};

use self::sidecar::Sidecar;
use crate::simulator;

/// How many times `cuInit` was called in this copy of the library.
static INITS: AtomicU64 = AtomicU64::new(0);

/// `cuInit`.
unsafe extern "C" fn init(flags: c_uint) -> CUresult {
    INITS.fetch_add(1, Ordering::Relaxed);
    match this_copy() {
        Err(code) => code,
        Ok(Sidecar { init: Some(code), .. }) => code,
        // SAFETY: the caller's promise is the one that the simulated driver asks for.
        Ok(_) => unsafe { (crate::functions().cuInit)(flags) },
    }
}

/// `cuDriverGetVersion`. `version` must be null or valid for a write.
unsafe extern "C" fn driver_get_version(version: *mut c_int) -> CUresult {
    let sidecar = match this_copy() {
        Err(code) => return code,
        Ok(sidecar) => sidecar,
    };
    // SAFETY: the caller's promise is the one that the simulated driver asks for.
    let code = unsafe { (crate::functions().cuDriverGetVersion)(version) };
    if let (CUresult::CUDA_SUCCESS, Some(stated)) = (code, sidecar.version) {
        // SAFETY: the driver refuses null, so it is valid for a write, says the caller.
        unsafe { version.write(c_int::try_from(stated).unwrap_or(c_int::MAX)) };
    }
    code
}

/// `cuGetProcAddress` of CUDA 11.3, which reports a missing function as an error. `symbol` must be null or a C string,
/// `function` null or valid for a write.
unsafe extern "C" fn get_proc_address_v11030(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: cuuint64_t,
) -> CUresult {
    let mut status = CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    // SAFETY: the caller vouches for `symbol` and `function`; `status` outlives the call.
    let code = unsafe { get_proc_address_v12000(symbol, function, version, flags, &mut status) };
    if code == CUresult::CUDA_SUCCESS && status != CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    code
}

/// `cuGetProcAddress` of CUDA 12.0, which reports a missing function as a null pointer and a status. `symbol` must be
/// null or a C string, `function` and `status` null or valid for a write.
unsafe extern "C" fn get_proc_address_v12000(
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

/// The file that this code was loaded from, without symbolic links.
#[cfg(unix)]
fn this_file() -> Option<PathBuf> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address and writes `info` only.
    let found = unsafe { libc::dladdr(init as *const c_void, info.as_mut_ptr()) } != 0;
    // SAFETY: all zeroes are a valid `Dl_info`, and so is what `dladdr` writes.
    let name = unsafe { info.assume_init() }.dli_fname;
    if !found || name.is_null() {
        return None;
    }
    // SAFETY: on success `dli_fname` is a string that lives as long as the library.
    let name = PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    Some(name.canonicalize().unwrap_or(name))
}

/// Elsewhere every copy is the whole driver.
#[cfg(not(unix))]
fn this_file() -> Option<PathBuf> {
    None
}

/// The version that look-ups go by; to find it out is no call.
fn driver_version(sidecar: &Sidecar) -> u32 {
    sidecar.version.unwrap_or_else(|| simulator::shared().driver_version())
}

/// The function of a row for a caller that knows it by name: what the look-up gives to whoever asks for the version of its
/// signature. How old a copy is, one can always ask it.
fn entry(symbol: Symbol) -> Result<*mut c_void, CUresult> {
    if let Some(address) = of_this_copy(symbol) {
        return Ok(address);
    }
    match look_up(symbol.name(), symbol.since(), &this_copy()?) {
        (address, CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS) => Ok(address),
        _ => Err(CUresult::CUDA_ERROR_NOT_FOUND),
    }
}

/// Those that answer differently from copy to copy.
fn of_this_copy(symbol: Symbol) -> Option<*mut c_void> {
    match symbol {
        Symbol::cuInit => Some(init as *mut c_void),
        Symbol::cuDriverGetVersion => Some(driver_get_version as *mut c_void),
        _ => None,
    }
}

/// The function called `name` as of CUDA `version`: of its signatures the newest that is no newer than that.
fn look_up(name: &CStr, version: u32, sidecar: &Sidecar) -> (*mut c_void, CUdriverProcAddressQueryResult) {
    use CUdriverProcAddressQueryResult as Found;

    let missing = |status| (ptr::null_mut(), status);
    match name.to_bytes() {
        b"cuGetProcAddress" if version >= 12000 => {
            return (get_proc_address_v12000 as *mut c_void, Found::CU_GET_PROC_ADDRESS_SUCCESS);
        }
        b"cuGetProcAddress" => return (get_proc_address_v11030 as *mut c_void, Found::CU_GET_PROC_ADDRESS_SUCCESS),
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
        symbol => of_this_copy(symbol).unwrap_or_else(|| crate::functions().address(symbol)),
    };
    if address.is_null() {
        return missing(Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    (address, Found::CU_GET_PROC_ADDRESS_SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = CUdriverProcAddressQueryResult;

    fn found(name: &CStr, version: u32, sidecar: &Sidecar) -> Option<usize> {
        let (address, status) = look_up(name, version, sidecar);
        assert_eq!(address.is_null(), status != Found::CU_GET_PROC_ADDRESS_SUCCESS);
        (!address.is_null()).then_some(address as usize)
    }

    #[test]
    fn every_row_is_found_by_its_name_and_version() {
        for symbol in Symbol::ALL {
            let own = of_this_copy(*symbol).unwrap_or_else(|| crate::functions().address(*symbol));
            let expected = (!own.is_null()).then_some(own as usize);
            assert_eq!(found(symbol.name(), symbol.since(), &Sidecar::default()), expected, "{symbol:?}");
        }
    }

    #[test]
    fn a_later_version_gives_the_newest_signature_and_an_earlier_one_none() {
        let whole = Sidecar::default();
        let (old, new) = (crate::functions().cuDeviceGetUuid, crate::functions().cuDeviceGetUuid_v2);
        for (version, function) in [(9020, old), (11030, old), (11040, new), (13000, new)] {
            assert_eq!(
                found(c"cuDeviceGetUuid", version, &whole),
                function.map(|function| function as *const () as usize)
            );
        }
        let too_early = look_up(c"cuDeviceGetUuid", 9010, &whole);
        assert_eq!(too_early, (ptr::null_mut(), Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    }

    #[test]
    fn what_a_copy_lacks_is_not_found() {
        let short = Sidecar { without: vec![Symbol::cuMemPoolCreate], ..Sidecar::default() };
        let lacking = (ptr::null_mut(), Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        assert_eq!(look_up(c"cuMemPoolCreate", 11020, &short), lacking);
        assert_eq!(look_up(c"cuNoSuchFunction", 11020, &short), lacking);
        assert!(found(c"cuMemPoolDestroy", 11020, &short).is_some());

        let old = Sidecar { version: Some(11030), ..Sidecar::default() };
        let newer = (ptr::null_mut(), Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
        assert_eq!(look_up(c"cuMemPoolCreate", 11040, &old), newer);
        assert!(found(c"cuMemPoolCreate", 11030, &old).is_some());
    }

    #[test]
    fn the_look_up_finds_itself() {
        let whole = Sidecar::default();
        assert_eq!(found(c"cuGetProcAddress", 12000, &whole), Some(get_proc_address_v12000 as *const () as usize));
        assert_eq!(found(c"cuGetProcAddress", 11030, &whole), Some(get_proc_address_v11030 as *const () as usize));
    }

    #[test]
    fn null_pointers_and_negative_versions_are_refused() {
        let mut function = ptr::null_mut();
        let (mut status, name) = (Found::CU_GET_PROC_ADDRESS_SUCCESS, c"cuInit".as_ptr());
        let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
        // SAFETY: every pointer is null or valid for the call.
        unsafe {
            assert_eq!(get_proc_address_v12000(ptr::null(), &mut function, 2000, 0, &mut status), refused);
            assert_eq!(get_proc_address_v12000(name, ptr::null_mut(), 2000, 0, &mut status), refused);
            assert_eq!(get_proc_address_v12000(name, &mut function, -1, 0, &mut status), refused);
            assert_eq!(get_proc_address_v11030(ptr::null(), &mut function, 2000, 0), refused);
            assert_eq!(driver_get_version(ptr::null_mut()), refused);
            assert_eq!(
                get_proc_address_v12000(name, &mut function, 2000, 0, ptr::null_mut()),
                CUresult::CUDA_SUCCESS,
                "the status may be left out"
            );
        }
        assert_eq!(function, init as *mut c_void);
    }
}
