//! Why no driver could be loaded: every file tried, and what was wrong with each.

use core::fmt;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{bindings::CUresult, functions::Symbol};

/// The environment variable that names the driver's library, for [`load`](crate::load) to try instead of searching.
pub const DRIVER_LIBRARY_VARIABLE: &str = "CUPOOL_DRIVER_LIBRARY";

/// The oldest driver that can be used: CUDA 11.3, the first that gives out functions by version.
pub(crate) const OLDEST_VERSION: u32 = 11030;

/// No candidate turned out to be a driver that can be used.
///
/// Prints each candidate on a line of its own with the reason it was passed over, then what to do about them. As
/// large as a pointer, and cheap to clone.
#[derive(Clone)]
pub struct LoadError(Arc<Tried>);

struct Tried {
    attempts: Vec<Attempt>,
    overridden: bool,
}

/// One candidate, and why it was passed over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The name or path that was asked for.
    pub candidate: PathBuf,
    /// The file that this led to, without symbolic links, where one is known.
    pub file: Option<PathBuf>,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Why a candidate was passed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The dynamic linker found or accepted no such library. It holds the linker's own words.
    #[error("not opened: {0}")]
    Open(Box<str>),
    /// The file lies in a folder named `stubs`, where the CUDA toolkit keeps files to link against.
    #[error("a file to link against, not a driver (it lies in a `stubs` folder)")]
    StubsFolder,
    /// The library answers `CUDA_ERROR_STUB_LIBRARY`: it is the toolkit's stub under another name.
    #[error("a stub to link against, not a driver (it answers code 34, CUDA_ERROR_STUB_LIBRARY)")]
    Stub,
    /// The library lacks a function by which every supported driver is entered.
    #[error("not a CUDA driver: it has no function `{missing}`")]
    NotADriver {
        /// The function.
        missing: &'static str,
    },
    /// The driver is older than CUDA 11.3, or says nothing sensible about its version.
    #[error("too old: a driver of CUDA {}, and CUDA {} is the oldest that works", Version(*.version), Version(OLDEST_VERSION))]
    TooOld {
        /// The driver's version, as `1000 * major + 10 * minor`.
        version: u32,
    },
    /// The driver lacks an entry point that nothing works without.
    #[error(
        "the driver (CUDA {}) lacks the required entry point `{}` of CUDA {}",
        Version(*.version),
        .symbol.row(),
        Version(.symbol.since())
    )]
    MissingRequired {
        /// The entry point; the first one, if several are missing.
        symbol: Symbol,
        /// The driver's version, as `1000 * major + 10 * minor`.
        version: u32,
    },
    /// The driver answered a call that any driver answers with an error.
    #[error("`{call}` answered code {}{}", .code.0, Parenthesised(.code.name()))]
    Refused {
        /// The call.
        call: &'static str,
        /// The driver's answer.
        code: CUresult,
    },
}

/// A CUDA version that prints as people write it.
struct Version(u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

struct Parenthesised(Option<&'static str>);

impl fmt::Display for Parenthesised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |text| write!(f, " ({text})"))
    }
}

impl LoadError {
    pub(crate) fn new(attempts: Vec<Attempt>, overridden: bool) -> Self {
        Self(Arc::new(Tried { attempts, overridden }))
    }

    /// The candidates in the order in which they were tried. Empty where CUDA has no driver for the platform.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// Whether the environment variable [`DRIVER_LIBRARY_VARIABLE`] chose the one candidate.
    #[must_use]
    pub fn is_overridden(&self) -> bool {
        self.0.overridden
    }
}

impl Attempt {
    pub(crate) fn new(candidate: &Path, file: Option<PathBuf>, reason: Reason) -> Self {
        Self { candidate: candidate.to_owned(), file, reason }
    }
}

impl Reason {
    /// What to do about it, where that is more than finding another file.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Stub | Self::StubsFolder => CUresult::CUDA_ERROR_STUB_LIBRARY.hint(),
            Self::TooOld { .. } => Some("update NVIDIA's driver"),
            Self::MissingRequired { .. } => {
                Some("something stands between the program and the driver, such as a library that intercepts its calls")
            }
            Self::Refused { code, .. } => code.hint(),
            Self::Open(_) | Self::NotADriver { .. } => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable CUDA driver library")?;
        if self.0.overridden {
            write!(f, " ({DRIVER_LIBRARY_VARIABLE} chose it)")?;
        }
        for attempt in self.attempts() {
            write!(f, "\n  {attempt}")?;
        }
        let mut said = Vec::new();
        for hint in self.attempts().iter().filter_map(|attempt| attempt.reason.hint()) {
            if !said.contains(&hint) {
                write!(f, "\n  help: {hint}")?;
                said.push(hint);
            }
        }
        if self.0.overridden {
            write!(f, "\n  help: correct {DRIVER_LIBRARY_VARIABLE}, or unset it to search as usual")
        } else if self.attempts().is_empty() {
            write!(f, "\n  help: no file was tried; CUDA has no driver for every platform")
        } else {
            write!(f, "\n  help: install NVIDIA's driver, or set {DRIVER_LIBRARY_VARIABLE} to the path of its library")
        }
    }
}

impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadError")
            .field("attempts", &self.0.attempts)
            .field("is_overridden", &self.0.overridden)
            .finish()
    }
}

impl core::error::Error for LoadError {}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.candidate.display())?;
        if let Some(file) = self.file.as_ref().filter(|file| **file != self.candidate) {
            write!(f, " ({})", file.display())?;
        }
        write!(f, ": {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(candidate: &str, file: Option<&str>, reason: Reason) -> Attempt {
        Attempt::new(Path::new(candidate), file.map(PathBuf::from), reason)
    }

    #[test]
    fn prints_every_candidate_its_reason_and_each_hint_once() {
        let error = LoadError::new(
            vec![
                attempt("libcuda.so.1", Some("/opt/stubs/libcuda.so"), Reason::StubsFolder),
                attempt("/usr/lib/wsl/lib/libcuda.so.1", None, Reason::Open("No such file or directory".into())),
                attempt("libcuda.so", Some("/opt/lib/libcuda.so"), Reason::Stub),
            ],
            false,
        );
        assert_eq!(
            error.to_string(),
            "no usable CUDA driver library
  libcuda.so.1 (/opt/stubs/libcuda.so): a file to link against, not a driver (it lies in a `stubs` folder)
  /usr/lib/wsl/lib/libcuda.so.1: not opened: No such file or directory
  libcuda.so (/opt/lib/libcuda.so): a stub to link against, not a driver (it answers code 34, \
             CUDA_ERROR_STUB_LIBRARY)
  help: this is the toolkit's link-time stub, not a driver: take its folder off LD_LIBRARY_PATH
  help: install NVIDIA's driver, or set CUPOOL_DRIVER_LIBRARY to the path of its library"
        );
    }

    #[test]
    fn says_when_the_environment_chose_the_file() {
        let reason = Reason::Refused { call: "cuDriverGetVersion", code: CUresult(9999) };
        let error = LoadError::new(vec![attempt("/x/libcuda.so", Some("/x/libcuda.so"), reason)], true);
        assert_eq!(
            error.to_string(),
            "no usable CUDA driver library (CUPOOL_DRIVER_LIBRARY chose it)
  /x/libcuda.so: `cuDriverGetVersion` answered code 9999
  help: correct CUPOOL_DRIVER_LIBRARY, or unset it to search as usual"
        );
        assert!(error.is_overridden());
    }

    #[test]
    fn reasons_name_versions_symbols_and_codes() {
        let text = |reason: Reason| reason.to_string();
        assert_eq!(
            text(Reason::TooOld { version: 11020 }),
            "too old: a driver of CUDA 11.2, and CUDA 11.3 is the oldest that works"
        );
        assert_eq!(
            text(Reason::MissingRequired { symbol: Symbol::cuMemPoolCreate, version: 12080 }),
            "the driver (CUDA 12.8) lacks the required entry point `cuMemPoolCreate` of CUDA 11.2"
        );
        assert_eq!(
            text(Reason::Refused { call: "cuDriverGetVersion", code: CUresult::CUDA_ERROR_DEINITIALIZED }),
            "`cuDriverGetVersion` answered code 4 (CUDA_ERROR_DEINITIALIZED)"
        );
        assert_eq!(
            text(Reason::NotADriver { missing: "cuDriverGetVersion" }),
            "not a CUDA driver: it has no function `cuDriverGetVersion`"
        );
    }

    #[test]
    fn is_one_pointer_large_and_crosses_threads() {
        fn crosses_threads<T: Send + Sync + Clone + core::error::Error + 'static>() {}
        crosses_threads::<LoadError>();
        assert_eq!(size_of::<LoadError>(), size_of::<usize>());
    }
}
