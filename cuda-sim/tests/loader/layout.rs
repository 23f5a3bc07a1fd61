//! A folder that looks like the places where drivers are found, filled with copies of the simulated driver.

use std::{
    env,
    ffi::CStr,
    fs,
    path::{Path, PathBuf},
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use cuda_sys::{Attempt, Library, LoadError, Reason};

/// A folder of its own for one test, removed at the end. Libraries that were loaded stay mapped.
pub(crate) struct Layout(PathBuf);

impl Layout {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("cupool-loader-{}-{number}", process::id()));
        fs::create_dir(&folder).unwrap();
        // What the loader reports has no symbolic links in it.
        Self(folder.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file of these bytes.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The simulated driver.
    pub(crate) fn driver(&self, name: &str) -> PathBuf {
        self.file(name, image())
    }

    /// The simulated driver, altered as the lines say: see `src/export/sidecar.rs`.
    pub(crate) fn altered(&self, name: &str, lines: &str) -> PathBuf {
        self.file(&format!("{name}.sim"), lines);
        self.driver(name)
    }

    /// The toolkit's stub, which answers 34 whatever it is asked.
    pub(crate) fn stub(&self, name: &str) -> PathBuf {
        self.altered(name, "stub = true")
    }

    /// Where the search looks, in its order, if this folder is the root. The linker's search path is `lib`.
    pub(crate) fn candidates(&self) -> [PathBuf; 3] {
        ["lib/libcuda.so.1", "usr/lib/wsl/lib/libcuda.so.1", "lib/libcuda.so"].map(|name| self.path(name))
    }

    /// Runs the search in this folder.
    pub(crate) fn search(&self) -> Result<&'static Library, LoadError> {
        // SAFETY: nothing lies in these places but what the test has put there: simulated drivers and no libraries.
        unsafe { cuda_sys::load_first(self.candidates()) }
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Loads one file of a layout.
pub(crate) fn load(path: &Path) -> Result<&'static Library, LoadError> {
    // SAFETY: tests hand over simulated drivers, and files that are no libraries.
    unsafe { cuda_sys::load_from(path) }
}

/// The one attempt of a search that had one candidate, checked to be printed with the error.
pub(crate) fn only_attempt(loaded: Result<&'static Library, LoadError>) -> Attempt {
    let error = loaded.expect_err("nothing can be loaded");
    let [attempt] = error.attempts() else { panic!("one candidate was tried: {error}") };
    assert!(error.to_string().contains(&attempt.to_string()), "{error}");
    attempt.clone()
}

/// What the linker said of the one candidate.
pub(crate) fn linker_said(loaded: Result<&'static Library, LoadError>) -> String {
    match only_attempt(loaded).reason {
        Reason::Open(words) => words.into(),
        reason => panic!("opened, but {reason}"),
    }
}

/// The simulated driver as a shared library, less what only debuggers read: few copies then cost little.
pub(crate) fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let file = library_file();
        let mut bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        bytes.truncate(end_of_segments(&bytes));
        bytes
    })
}

/// The library that cargo built beside this test; where there is no cargo, the one that `CUPOOL_SIM_LIBRARY` names.
fn library_file() -> PathBuf {
    if let Some(file) = env::var_os("CUPOOL_SIM_LIBRARY") {
        return file.into();
    }
    let test = env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let name = "libcupool_sim.so";
    let found = [deps.join(name), deps.join("..").join(name)].into_iter().find(|file| file.exists());
    found.unwrap_or_else(|| panic!("no {name} in or above {}", deps.display()))
}

fn end_of_segments(elf: &[u8]) -> usize {
    let number = |at: usize, size: usize| {
        elf[at..at + size].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (offset, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let segments = (0..count).map(|index| offset + index * size);
    segments.map(|segment| number(segment + 8, 8) + number(segment + 32, 8)).max().unwrap()
}

/// `image` without the export `name`: the name is another one there, in the same place, so no look-up finds it.
pub(crate) fn without_export(image: &[u8], name: &CStr) -> Vec<u8> {
    let mut bytes = image.to_vec();
    let mut found = 0;
    let pattern = [b"\0", name.to_bytes_with_nul()].concat();
    for at in 0..bytes.len() - pattern.len() {
        if bytes[at..].starts_with(&pattern) {
            bytes[at + 1] = b'x';
            found += 1;
        }
    }
    assert!(found > 0, "the library exports {name:?}");
    bytes
}
