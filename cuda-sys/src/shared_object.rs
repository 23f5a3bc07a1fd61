//! A shared library: opened, looked into, and closed again unless it is kept.
//!
//! A path is looked at before it is opened, for flaws that the dynamic linker would not survive or not name. A bare
//! name is not: which file it leads to, only the linker knows.

use core::{
    error::Error,
    ffi::{CStr, c_void},
};
use std::path::{Path, PathBuf};

#[cfg(unix)]
use libloading::os::unix as os;
#[cfg(windows)]
use libloading::os::windows as os;

/// An open library. Dropping it closes it, and ends the validity of every address it gave.
pub(crate) struct SharedObject(os::Library);

impl SharedObject {
    /// Opens the library that `candidate` names: a path, or a name without a folder for the dynamic linker to search.
    /// On failure gives the linker's words.
    ///
    /// # Safety
    /// Runs the library's initialisers now, and its finalisers when it is dropped: the caller vouches for both.
    pub(crate) unsafe fn open(candidate: &Path) -> Result<Self, Box<str>> {
        if candidate.as_os_str().is_empty() {
            // An empty name would open the program itself.
            return Err("the name is empty".into());
        }
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        if let Some(flaw) = file_at(candidate).and_then(|file| crate::elf::flaw(&file)) {
            return Err(flaw);
        }
        // SAFETY: the caller vouches for initialisers and finalisers.
        let opened = unsafe { open(candidate) };
        opened.map(Self).map_err(|error| words(candidate, &error))
    }

    /// The address of the function `name`; `None` if the library, and what it depends on, has none.
    pub(crate) fn entry(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: any address is a valid `*mut c_void`.
        let symbol = unsafe { self.0.get::<*mut c_void>(name) }.ok()?;
        let address = symbol.as_raw_ptr();
        (!address.is_null()).then_some(address)
    }

    /// Keeps the library open for ever. The number identifies it: opening the same file again, under whatever name,
    /// gives the same one.
    pub(crate) fn keep(self) -> usize {
        self.0.into_raw() as usize
    }
}

/// The file that a candidate leads to without symbolic links, if it is a path; a bare name is for the linker to find.
pub(crate) fn file_at(candidate: &Path) -> Option<PathBuf> {
    let is_path = candidate.parent().is_some_and(|folder| !folder.as_os_str().is_empty());
    if is_path { candidate.canonicalize().ok() } else { None }
}

/// The file that holds the function at `address`, without symbolic links.
#[cfg(unix)]
pub(crate) fn file_of(address: *mut c_void) -> Option<PathBuf> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address and writes `info` only.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
    // SAFETY: all zeroes are a valid `Dl_info`, and so is what `dladdr` writes.
    let name = unsafe { info.assume_init() }.dli_fname;
    if !found || name.is_null() {
        return None;
    }
    // SAFETY: on success `dli_fname` is a string that lives as long as the library, and it is copied right away.
    let name = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    Some(name.canonicalize().unwrap_or_else(|_| name.to_owned()))
}

/// Windows looks for the driver in its system folder only: the candidate says all that is to say.
#[cfg(windows)]
pub(crate) fn file_of(_address: *mut c_void) -> Option<PathBuf> {
    None
}

#[cfg(unix)]
unsafe fn open(candidate: &Path) -> Result<os::Library, libloading::Error> {
    // SAFETY: the caller vouches for initialisers and finalisers.
    unsafe { os::Library::open(Some(candidate), os::RTLD_NOW | os::RTLD_LOCAL) }
}

#[cfg(windows)]
unsafe fn open(candidate: &Path) -> Result<os::Library, libloading::Error> {
    // A bare name means the system's own library: a file of that name beside the program is not the driver. An
    // absolute path brings its folder along for the libraries it depends on, which Windows allows of no other path.
    let flags = if candidate.is_absolute() {
        os::LOAD_WITH_ALTERED_SEARCH_PATH
    } else if candidate.components().count() == 1 {
        os::LOAD_LIBRARY_SEARCH_SYSTEM32
    } else {
        0
    };
    // SAFETY: the caller vouches for initialisers and finalisers.
    unsafe { os::Library::load_with_flags(candidate, flags) }
}

/// What the linker said, without the candidate's name in front, which whoever prints it knows.
fn words(candidate: &Path, error: &libloading::Error) -> Box<str> {
    let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let name = candidate.display().to_string();
    said.strip_prefix(&name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&said).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_not_the_program_itself() {
        // SAFETY: nothing is opened.
        let opened = unsafe { SharedObject::open(Path::new("")) };
        assert_eq!(opened.err().as_deref(), Some("the name is empty"));
    }

    #[test]
    fn a_name_that_no_file_can_have_is_refused() {
        // SAFETY: nothing is opened.
        let opened = unsafe { SharedObject::open(Path::new("lib\0cuda.so")) };
        assert!(opened.is_err());
    }

    #[test]
    fn only_paths_name_a_file_before_they_are_opened() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(file_at(&program), Some(program.canonicalize().unwrap()));
        assert_eq!(file_at(Path::new(program.file_name().unwrap())), None);
        assert_eq!(file_at(Path::new("/no such folder/libcuda.so")), None);
    }

    #[cfg(unix)]
    #[test]
    fn an_address_outside_every_file_has_none() {
        assert_eq!(file_of(core::ptr::without_provenance_mut(1)), None);
    }
}
