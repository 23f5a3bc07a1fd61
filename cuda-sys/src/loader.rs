//! Finds the driver's library, decides whether it can be used, and fills the table from it.
//!
//! Loading asks the driver for its version and its functions and does nothing else: it makes no `cuInit`, so no
//! process, device or context is touched by it. A library that was accepted stays loaded for the life of the process,
//! which is what makes `&'static` true; one that was passed over is closed again before the next is tried. The
//! toolkit's stub has to be: it calls itself `libcuda.so.1`, and would be found under that name ever after.

use core::{
    ffi::{c_int, c_void},
    fmt, mem, ptr,
};
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use crate::{
    bindings::{
        CUdriverProcAddressQueryResult, CUresult, PFN_cuDriverGetVersion_v2020, PFN_cuGetProcAddress_v11030,
        PFN_cuGetProcAddress_v12000,
    },
    error::{Attempt, DRIVER_LIBRARY_VARIABLE, LoadError, OLDEST_VERSION, Reason},
    functions::{Functions, Pfn, Symbol},
    shared_object::{SharedObject, file_at, file_of},
};

/// What drivers are called, in the order in which they are tried. The plain `libcuda.so` comes last because a stub
/// has that name and a driver offers the other one too.
const CANDIDATES: &[&str] = if cfg!(target_os = "linux") {
    &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so"]
} else if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &[]
};

/// A loaded driver. It is never unloaded.
pub struct Library {
    functions: Functions,
    path: PathBuf,
    driver_version: u32,
}

impl Library {
    /// The driver's functions.
    #[must_use]
    pub const fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The file that was loaded, without symbolic links; on Windows the name it was loaded by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest CUDA version the driver supports, as `1000 * major + 10 * minor`, read with `cuDriverGetVersion`
    /// when it was loaded.
    #[must_use]
    pub const fn driver_version(&self) -> u32 {
        self.driver_version
    }

    /// The library that a table came from; `None` for a table that no library gave.
    #[must_use]
    pub fn of(functions: &'static Functions) -> Option<&'static Self> {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|(_, library)| *library).find(|library| ptr::eq(&library.functions, functions))
    }

    /// The optional entry points that this driver lacks.
    pub fn missing(&self) -> impl Iterator<Item = Symbol> {
        Symbol::ALL.iter().copied().filter(|symbol| self.functions.address(*symbol).is_null())
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("path", &self.path)
            .field("driver_version", &self.driver_version)
            .finish_non_exhaustive()
    }
}

/// Finds and loads the driver, once for the process: the first answer, good or bad, is given ever after.
///
/// If the environment variable [`DRIVER_LIBRARY_VARIABLE`] is set and not empty, it names the one file to try. If
/// not, the names that NVIDIA's driver goes by are tried in this order:
///
/// - Linux: `libcuda.so.1`, wherever the dynamic linker finds it; `/usr/lib/wsl/lib/libcuda.so.1`, which is where
///   Windows Subsystem for Linux keeps it, off the search path; `libcuda.so`;
/// - Windows: `nvcuda.dll` in the system folder.
///
/// The first that can be used is taken. A file that cannot be opened, is not a driver, is the toolkit's stub, is
/// older than CUDA 11.3 or lacks a [required](crate::Need::Required) entry point is passed over.
///
/// # Errors
/// Every candidate with the reason it was passed over.
pub fn load() -> Result<&'static Library, LoadError> {
    static LOADED: OnceLock<Result<&'static Library, LoadError>> = OnceLock::new();
    // SAFETY: a library that goes by the driver's name, or that whoever runs the program chose by name, is taken for
    // the driver. So does every program that is linked against libcuda.
    LOADED.get_or_init(|| unsafe { search(override_from(env::var_os(DRIVER_LIBRARY_VARIABLE))) }).clone()
}

/// Loads the driver from `path`: a path, or a name for the dynamic linker to search.
///
/// The same file gives the same [`Library`] every time, also the one that [`load`] gives. A failure is not
/// remembered.
///
/// # Errors
/// Why the file cannot be used.
///
/// # Safety
/// Opening a library runs its initialisers, and its finalisers if it is passed over or the process ends. What it gives
/// out as the driver's functions is called with the signatures of the driver's. Nothing can check either: the file must
/// be NVIDIA's driver, or something that behaves like it.
pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Library, LoadError> {
    // SAFETY: the caller vouches for the file.
    unsafe { load_first([path]) }
}

/// Loads the driver from the first of `candidates` that can be used: the search of [`load`] with another list.
///
/// Each candidate is a path, or a name for the dynamic linker to search. The same file gives the same [`Library`]
/// every time. A failure is not remembered.
///
/// # Errors
/// Every candidate with the reason it was passed over.
///
/// # Safety
/// As for [`load_from`], for every candidate.
pub unsafe fn load_first<P: AsRef<Path>>(
    candidates: impl IntoIterator<Item = P>,
) -> Result<&'static Library, LoadError> {
    let mut attempts = Vec::new();
    for candidate in candidates {
        // SAFETY: the caller vouches for each candidate.
        match unsafe { attempt(candidate.as_ref()) } {
            Ok(library) => return Ok(library),
            Err(attempt) => attempts.push(attempt),
        }
    }
    Err(LoadError::new(attempts, false))
}

/// The file that the environment variable names: an empty value is none.
fn override_from(value: Option<OsString>) -> Option<OsString> {
    value.filter(|name| !name.is_empty())
}

/// Tries what the environment chose, or else what drivers are called.
///
/// # Safety
/// As for [`load_from`], for `chosen` and for what [`CANDIDATES`] lead to.
unsafe fn search(chosen: Option<OsString>) -> Result<&'static Library, LoadError> {
    match chosen {
        // SAFETY: the caller vouches for it.
        Some(name) => unsafe { attempt(name.as_ref()) }.map_err(|attempt| LoadError::new(vec![attempt], true)),
        // SAFETY: the caller vouches for them.
        None => unsafe { load_first(CANDIDATES) },
    }
}

/// # Safety
/// As for [`load_from`].
unsafe fn attempt(candidate: &Path) -> Result<&'static Library, Attempt> {
    let mut file = file_at(candidate);
    // SAFETY: the caller vouches for the file.
    unsafe { open(candidate, &mut file) }.map_err(|reason| Attempt::new(candidate, file, reason))
}

/// Opens a candidate, and leaves in `file` which file it turned out to be. Closes it again on failure.
///
/// # Safety
/// As for [`load_from`].
unsafe fn open(candidate: &Path, file: &mut Option<PathBuf>) -> Result<&'static Library, Reason> {
    refuse_stubs_folder(file.as_deref())?;
    // SAFETY: the caller vouches for the file.
    let object = unsafe { SharedObject::open(candidate) }.map_err(Reason::Open)?;

    let address = object.entry(c"cuDriverGetVersion").ok_or(Reason::NotADriver { missing: "cuDriverGetVersion" })?;
    if let Some(found) = file_of(address) {
        *file = Some(found);
        refuse_stubs_folder(file.as_deref())?;
    }
    // SAFETY: the driver's function of this name has had this signature since CUDA 2.2.
    let driver_version = unsafe { version(address) }?;
    if driver_version < OLDEST_VERSION {
        return Err(Reason::TooOld { version: driver_version });
    }

    let door = Door::find(&object).ok_or(Reason::NotADriver { missing: "cuGetProcAddress" })?;
    // SAFETY: the door answers with a function of the version asked for, which is the one that `type_name` spells out,
    // or with none. It is valid while the library is open: `object` is kept for ever if a table comes of this.
    let functions = unsafe { Functions::resolve(|symbol| door.address(symbol)) }
        .map_err(|symbol| Reason::MissingRequired { symbol, version: driver_version })?;

    let path = file.clone().unwrap_or_else(|| candidate.to_owned());
    Ok(keep(object, Library { functions, path, driver_version }))
}

/// A path into a toolkit's `stubs` folder never is a driver's, whatever the file says of itself.
fn refuse_stubs_folder(file: Option<&Path>) -> Result<(), Reason> {
    match file.and_then(Path::parent) {
        Some(folder) if folder.components().any(|part| part.as_os_str() == "stubs") => Err(Reason::StubsFolder),
        _ => Ok(()),
    }
}

/// What `cuDriverGetVersion` says; 0 for a number that is no version.
///
/// # Safety
/// At `address` there must be a function of the signature of `cuDriverGetVersion`.
unsafe fn version(address: *mut c_void) -> Result<u32, Reason> {
    let mut version: c_int = 0;
    // SAFETY: the caller vouches for the signature; an address that is not null is a valid function pointer.
    let code = unsafe {
        let cu_driver_get_version = mem::transmute::<*mut c_void, <PFN_cuDriverGetVersion_v2020 as Pfn>::Fn>(address);
        cu_driver_get_version(&mut version)
    };
    match code {
        CUresult::CUDA_SUCCESS => Ok(u32::try_from(version).unwrap_or(0)),
        CUresult::CUDA_ERROR_STUB_LIBRARY => Err(Reason::Stub),
        code => Err(Reason::Refused { call: "cuDriverGetVersion", code }),
    }
}

type ProcAddressV1 = <PFN_cuGetProcAddress_v11030 as Pfn>::Fn;
type ProcAddressV2 = <PFN_cuGetProcAddress_v12000 as Pfn>::Fn;

/// The driver's own look-up of functions by version, in whichever of its two signatures the driver exports.
enum Door {
    /// Since CUDA 12.0.
    V2(ProcAddressV2),
    /// Since CUDA 11.3.
    V1(ProcAddressV1),
}

impl Door {
    fn find(object: &SharedObject) -> Option<Self> {
        // Headers of CUDA 12 and later call the second one `cuGetProcAddress`; what the driver exports by that name
        // stays the first.
        if let Some(address) = object.entry(c"cuGetProcAddress_v2") {
            // SAFETY: the address is not null, and what a driver exports by this name has this signature.
            return Some(Self::V2(unsafe { mem::transmute::<*mut c_void, ProcAddressV2>(address) }));
        }
        let address = object.entry(c"cuGetProcAddress")?;
        // SAFETY: the address is not null, and what a driver exports by this name has this signature.
        Some(Self::V1(unsafe { mem::transmute::<*mut c_void, ProcAddressV1>(address) }))
    }

    /// The driver's function for `symbol`, of exactly the signature in the table; null if the driver has none.
    fn address(&self, symbol: Symbol) -> *mut c_void {
        // Absence is told in two ways: by an error code, or by success and a null pointer.
        let mut address = ptr::null_mut();
        let name = symbol.name().as_ptr();
        let Ok(since) = c_int::try_from(symbol.since()) else { return ptr::null_mut() };
        // Of two functions, one per default stream, the flags 0 ask for the legacy one's.
        let code = match self {
            Self::V2(get_proc_address) => {
                let mut status = CUdriverProcAddressQueryResult(0);
                // SAFETY: the name is a C string, and both places outlive the call.
                unsafe { get_proc_address(name, &mut address, since, 0, &mut status) }
            }
            // SAFETY: the name is a C string, and the place outlives the call.
            Self::V1(get_proc_address) => unsafe { get_proc_address(name, &mut address, since, 0) },
        };
        if code == CUresult::CUDA_SUCCESS { address } else { ptr::null_mut() }
    }
}

/// What was kept, by the identity of the shared object.
static KEPT: Mutex<Vec<(usize, &'static Library)>> = Mutex::new(Vec::new());

/// Keeps a library for ever; gives the one there is if the file is loaded already.
fn keep(object: SharedObject, library: Library) -> &'static Library {
    let identity = object.keep();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, library)) = kept.iter().find(|(known, _)| *known == identity) {
        return library;
    }
    let library: &'static Library = Box::leak(Box::new(library));
    kept.push((identity, library));
    library
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a4_the_versioned_name_comes_first_and_the_wsl_folder_before_the_plain_name() {
        assert_eq!(CANDIDATES, ["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so"]);
    }

    #[test]
    fn an_empty_variable_chooses_nothing() {
        assert_eq!(override_from(None), None);
        assert_eq!(override_from(Some("".into())), None);
        assert_eq!(override_from(Some("libcuda.so".into())), Some("libcuda.so".into()));
    }

    #[test]
    fn a3_only_folders_named_stubs_are_stubs_folders() {
        let refused = |path: &str| refuse_stubs_folder(Some(Path::new(path))).is_err();
        assert!(refused("/usr/local/cuda/lib64/stubs/libcuda.so"));
        assert!(refused("/opt/stubs/x86_64/libcuda.so.1"));
        assert!(!refused("/opt/stubs-not/libcuda.so.1"));
        assert!(!refused("/opt/lib/stubs"));
        assert_eq!(refuse_stubs_folder(None), Ok(()));
    }

    #[test]
    fn a_driver_that_answers_nonsense_is_refused() {
        unsafe extern "C" fn negative(version: *mut c_int) -> CUresult {
            // SAFETY: `version` passes a place of its own.
            unsafe { version.write(-1) };
            CUresult::CUDA_SUCCESS
        }
        unsafe extern "C" fn unknown(_version: *mut c_int) -> CUresult {
            CUresult(0xffff_ffff)
        }
        // SAFETY: both functions have the signature of `cuDriverGetVersion`.
        let answers = unsafe { [version(negative as *mut c_void), version(unknown as *mut c_void)] };
        let code = CUresult(0xffff_ffff);
        assert_eq!(answers, [Ok(0), Err(Reason::Refused { call: "cuDriverGetVersion", code })]);
    }

    #[test]
    fn either_look_up_may_say_missing_by_code_or_by_null() {
        unsafe extern "C" fn code(
            _: *const core::ffi::c_char,
            function: *mut *mut c_void,
            _: c_int,
            _: u64,
        ) -> CUresult {
            // SAFETY: the loader passes a place of its own. What is left there by a call that fails means nothing.
            unsafe { function.write(ptr::dangling_mut()) };
            CUresult::CUDA_ERROR_NOT_FOUND
        }
        unsafe extern "C" fn null(
            _: *const core::ffi::c_char,
            function: *mut *mut c_void,
            _: c_int,
            _: u64,
            _: *mut CUdriverProcAddressQueryResult,
        ) -> CUresult {
            // SAFETY: the loader passes a place of its own.
            unsafe { function.write(ptr::null_mut()) };
            CUresult::CUDA_SUCCESS
        }
        assert!(Door::V1(code).address(Symbol::cuInit).is_null());
        assert!(Door::V2(null).address(Symbol::cuInit).is_null());
    }
}
