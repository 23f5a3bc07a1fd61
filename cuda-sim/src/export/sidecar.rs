//! What makes one copy of the shared library differ from another: a text file beside it, `<library file>.sim`.
//!
//! A driver that is a stub, old, or short of a function is then a copy of one file under another name. Lines read
//! `key = value`; what follows a `#` is a comment:
//!
//! ```text
//! version = 11020             # the driver's version; functions newer than that are missing
//! without = cuMemPoolCreate   # lacks this row of the table; may be repeated
//! init = 802                  # what cuInit answers
//! stub = true                 # every call answers 34, CUDA_ERROR_STUB_LIBRARY
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use cuda_sys::{CUresult, Symbol};

/// How a copy of the library departs from the simulated driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sidecar {
    pub(super) version: Option<u32>,
    pub(super) without: Vec<Symbol>,
    pub(super) init: Option<CUresult>,
    pub(super) stub: bool,
}

impl Sidecar {
    /// Reads the file beside `library`; without one nothing differs. A file that makes no sense is an error: a test
    /// must not run against a driver it did not mean.
    pub(super) fn beside(library: &Path) -> Result<Self, String> {
        let mut name = library.as_os_str().to_owned();
        name.push(".sim");
        let file = PathBuf::from(name);
        match fs::read_to_string(&file) {
            Ok(text) => Self::parse(&text).map_err(|error| format!("{}: {error}", file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut sidecar = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = || format!("cannot make sense of `{line}`");
            let (key, value) = line.split_once('=').ok_or_else(wrong)?;
            let value = value.trim();
            match key.trim() {
                "version" => sidecar.version = Some(value.parse().map_err(|_| wrong())?),
                "init" => sidecar.init = Some(CUresult(value.parse().map_err(|_| wrong())?)),
                "stub" => sidecar.stub = value.parse().map_err(|_| wrong())?,
                "without" => {
                    let symbol = Symbol::ALL.iter().find(|symbol| symbol.row() == value);
                    sidecar.without.push(*symbol.ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(sidecar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_key() {
        let text = "# an old driver\nversion = 11040\nwithout=cuMemPoolCreate\n\n  init = 802  # not ready\n\
                    without = cuDeviceGetUuid_v2\nstub = true\n";
        assert_eq!(
            Sidecar::parse(text),
            Ok(Sidecar {
                version: Some(11040),
                without: vec![Symbol::cuMemPoolCreate, Symbol::cuDeviceGetUuid_v2],
                init: Some(CUresult::CUDA_ERROR_SYSTEM_NOT_READY),
                stub: true,
            })
        );
        assert_eq!(Sidecar::parse("\n# nothing\n"), Ok(Sidecar::default()));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for line in ["version", "version = twelve", "version = -1", "without = cuMemPool", "stub = yes", "color = red"]
        {
            assert_eq!(Sidecar::parse(line), Err(format!("cannot make sense of `{line}`")));
        }
    }

    #[test]
    fn no_file_means_no_difference_and_an_unreadable_one_is_an_error() {
        let folder = std::env::temp_dir().join(format!("cupool-sidecar-{}", std::process::id()));
        fs::create_dir_all(folder.join("b.sim")).unwrap();
        fs::write(folder.join("c.sim"), "stub = true").unwrap();
        let read = |name: &str| Sidecar::beside(&folder.join(name));
        let (none, unreadable, stub) = (read("a"), read("b"), read("c"));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(none, Ok(Sidecar::default()));
        assert!(unreadable.is_err(), "{unreadable:?}");
        assert_eq!(stub, Ok(Sidecar { stub: true, ..Sidecar::default() }));
    }
}
