//! Files that are no driver, or none that can be used: each is an error that says so.

use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink, path::Path, thread};

use cuda_sys::{CUresult, Reason};

use crate::layout::{Layout, image, linker_said, load, only_attempt, without_export};

#[test]
fn a_text_file_is_not_a_library() {
    let layout = Layout::new();
    let text = layout.file("libcuda.so.1", "INPUT(libcuda.so.580)\n".repeat(100));
    assert_eq!(linker_said(load(&text)), "invalid ELF header");
}

#[test]
fn an_empty_file_is_not_a_library() {
    let layout = Layout::new();
    let empty = layout.file("libcuda.so.1", "");
    assert_eq!(linker_said(load(&empty)), "file too short");
}

#[test]
fn a_library_cut_short_is_an_error_and_not_a_bus_error() {
    let layout = Layout::new();
    let image = image();
    for length in [1, 63, 64, 500, 4096, image.len() / 2, image.len() - 1] {
        let cut = layout.file("libcuda.so.1", &image[..length]);
        let said = linker_said(load(&cut));
        assert!(
            ["short", "cannot read file data"].iter().any(|words| said.contains(words)),
            "{length} of {} bytes: {said}",
            image.len()
        );
    }
}

#[test]
fn a_library_for_another_processor_is_told_apart() {
    const MACHINE: usize = 18;
    const SPARC: u8 = 43;
    let layout = Layout::new();
    let mut other = image().to_vec();
    other[MACHINE] = SPARC;
    let said = linker_said(load(&layout.file("libcuda.so.1", other)));
    assert!(said.starts_with("built for another processor (ELF machine 43, not "), "{said}");
}

#[test]
fn a_library_of_another_word_size_is_told_apart() {
    const CLASS: usize = 4;
    let layout = Layout::new();
    let mut other = image().to_vec();
    other[CLASS] = 1;
    let said = linker_said(load(&layout.file("libcuda.so.1", other)));
    assert!(said.contains("wrong ELF class"), "{said}");
}

#[test]
fn a_folder_is_not_a_library() {
    let layout = Layout::new();
    let folder = layout.path("libcuda.so.1");
    fs::create_dir(&folder).unwrap();
    let said = linker_said(load(&folder));
    assert!(said.contains("directory"), "{said}");
}

#[test]
fn a_link_to_nothing_is_an_absent_library() {
    let layout = Layout::new();
    let link = layout.path("libcuda.so.1");
    symlink("libcuda.so.580.1", &link).unwrap();
    let attempt = only_attempt(load(&link));
    assert_eq!(attempt.file, None);
    assert!(attempt.to_string().contains("No such file or directory"), "{attempt}");
}

#[test]
fn names_that_no_file_can_have_are_errors() {
    for name in ["", "libcuda\0.so.1"] {
        linker_said(load(Path::new(name)));
    }
}

#[test]
fn a_library_that_may_not_be_read_is_an_error() {
    let layout = Layout::new();
    let driver = layout.driver("libcuda.so.1");
    fs::set_permissions(&driver, fs::Permissions::from_mode(0o000)).unwrap();
    let said = without_privileges(|| linker_said(load(&driver)));
    assert!(said.contains("Permission denied"), "{said}");

    fs::set_permissions(&driver, fs::Permissions::from_mode(0o755)).unwrap();
    without_privileges(|| load(&driver).map(|library| assert_eq!(library.path(), driver))).unwrap();
}

/// Runs `probe` on a thread that has none of the rights of the superuser, so that modes of files count for it too.
fn without_privileges<T: Send>(probe: impl FnOnce() -> T + Send) -> T {
    #[repr(C)]
    struct Header {
        version: u32,
        thread: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let drop_all = || {
        let header = Header { version: VERSION_3, thread: 0 };
        let none = [0_u32; 6];
        // SAFETY: `capset` reads a header and, in its version 3, two sets of three words. It changes this thread only.
        unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) }
    };
    thread::scope(|scope| {
        let probed = scope.spawn(move || {
            assert_eq!(drop_all(), 0, "{}", std::io::Error::last_os_error());
            probe()
        });
        probed.join().unwrap()
    })
}

#[test]
fn a_library_without_the_drivers_functions_is_not_a_driver() {
    let layout = Layout::new();
    let nameless = without_export(image(), c"cuDriverGetVersion");
    let attempt = only_attempt(load(&layout.file("libcuda.so.1", nameless)));
    assert_eq!(attempt.reason, Reason::NotADriver { missing: "cuDriverGetVersion" });
}

#[test]
fn an_old_driver_is_named_with_its_version() {
    let layout = Layout::new();
    let attempt = only_attempt(load(&layout.altered("libcuda.so.1", "version = 11020")));
    assert_eq!(attempt.reason, Reason::TooOld { version: 11020 });
    assert!(attempt.to_string().contains("a driver of CUDA 11.2, and CUDA 11.3 is the oldest that works"), "{attempt}");

    let attempt = only_attempt(load(&layout.altered("zero.so", "version = 0")));
    assert_eq!(attempt.reason, Reason::TooOld { version: 0 });
}

#[test]
fn a_driver_that_will_not_say_its_version_is_named_with_the_code() {
    let layout = Layout::new();
    let attempt = only_attempt(load(&layout.altered("libcuda.so.1", "the simulator refuses to run with this line")));
    assert_eq!(
        attempt.reason,
        Reason::Refused { call: "cuDriverGetVersion", code: CUresult::CUDA_ERROR_OPERATING_SYSTEM }
    );
    assert!(attempt.to_string().contains("code 304 (CUDA_ERROR_OPERATING_SYSTEM)"), "{attempt}");
}
