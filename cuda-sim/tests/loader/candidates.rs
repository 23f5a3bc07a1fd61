//! Which of several candidates is taken, and what is said of those that are not.

use std::{fs, os::unix::fs::symlink, path::PathBuf, thread};

use cuda_sys::{LoadError, Reason};

use crate::layout::{Layout, load};

/// Every candidate of the layout must have been tried, in order; gives the reasons.
fn reasons(layout: &Layout, error: &LoadError) -> Vec<Reason> {
    let tried: Vec<PathBuf> = error.attempts().iter().map(|attempt| attempt.candidate.clone()).collect();
    assert_eq!(tried, layout.candidates());
    let text = error.to_string();
    for attempt in error.attempts() {
        assert!(text.lines().any(|line| line.trim_start() == attempt.to_string()), "{text}");
    }
    error.attempts().iter().map(|attempt| attempt.reason.clone()).collect()
}

fn is_absent(reason: &Reason) -> bool {
    matches!(reason, Reason::Open(words) if words.contains("No such file or directory"))
}

#[test]
fn a2_no_library_is_an_error_that_lists_every_place() {
    let layout = Layout::new();
    let error = layout.search().unwrap_err();
    assert!(reasons(&layout, &error).iter().all(is_absent), "{error}");
    assert!(error.to_string().contains("install NVIDIA's driver, or set CUPOOL_DRIVER_LIBRARY"), "{error}");
    assert!(!error.is_overridden());
}

#[test]
fn a2_no_candidates_is_an_error_too() {
    // SAFETY: nothing is loaded.
    let error = unsafe { cuda_sys::load_first::<&str>([]) }.unwrap_err();
    assert!(error.attempts().is_empty());
    assert!(error.to_string().contains("no file was tried"), "{error}");
}

#[test]
fn a2_the_plain_name_is_found_last() {
    let layout = Layout::new();
    let driver = layout.driver("lib/libcuda.so");
    assert_eq!(layout.search().unwrap().path(), driver);
}

#[test]
fn a2_the_versioned_name_comes_before_the_others() {
    let layout = Layout::new();
    let driver = layout.driver("lib/libcuda.so.1");
    layout.driver("usr/lib/wsl/lib/libcuda.so.1");
    layout.driver("lib/libcuda.so");
    assert_eq!(layout.search().unwrap().path(), driver);
}

#[test]
fn a3_a_stub_alone_is_named_with_its_code() {
    let layout = Layout::new();
    let stub = layout.stub("lib/libcuda.so");
    symlink("libcuda.so", layout.path("lib/libcuda.so.1")).unwrap();
    let error = layout.search().unwrap_err();
    let reasons = reasons(&layout, &error);
    assert!(matches!(&reasons[..], [Reason::Stub, absent, Reason::Stub] if is_absent(absent)), "{error}");
    let text = error.to_string();
    let versioned = layout.path("lib/libcuda.so.1");
    assert!(text.contains(&format!("{} ({})", versioned.display(), stub.display())), "{text}");
    assert!(text.contains("code 34"), "{text}");
    assert_eq!(text.matches("take its folder off LD_LIBRARY_PATH").count(), 1, "{text}");
}

#[test]
fn a3_a_stub_before_the_driver_is_passed_over() {
    let layout = Layout::new();
    layout.stub("lib/libcuda.so.1");
    let driver = layout.driver("lib/libcuda.so");
    assert_eq!(layout.search().unwrap().path(), driver);
}

#[test]
fn a3_a_file_in_a_stubs_folder_is_refused_whatever_it_answers() {
    let layout = Layout::new();
    let stub = layout.driver("toolkit/lib64/stubs/libcuda.so");
    fs::create_dir(layout.path("lib")).unwrap();
    symlink(&stub, layout.path("lib/libcuda.so.1")).unwrap();
    let error = layout.search().unwrap_err();
    let [attempt, ..] = error.attempts() else { panic!("{error}") };
    assert_eq!((&attempt.reason, attempt.file.as_ref()), (&Reason::StubsFolder, Some(&stub)));

    let driver = layout.driver("lib/libcuda.so");
    assert_eq!(layout.search().unwrap().path(), driver);
}

#[test]
fn a3_a_file_that_is_only_named_stubs_is_not_refused() {
    let layout = Layout::new();
    let driver = layout.driver("my-stubs/stubs");
    assert_eq!(load(&driver).unwrap().path(), driver);
}

#[test]
fn a4_the_wsl_folder_is_looked_into() {
    let layout = Layout::new();
    let driver = layout.driver("usr/lib/wsl/lib/libcuda.so.1");
    layout.stub("lib/libcuda.so");
    assert_eq!(layout.search().unwrap().path(), driver);
}

#[test]
fn every_failure_moves_on_to_the_next_candidate() {
    let layout = Layout::new();
    layout.file("lib/libcuda.so.1", "not a library");
    layout.altered("usr/lib/wsl/lib/libcuda.so.1", "version = 11020");
    let driver = layout.driver("lib/libcuda.so");
    assert_eq!(layout.search().unwrap().path(), driver);

    fs::remove_file(&driver).unwrap();
    layout.altered("lib/libcuda.so", "without = cuMemFreeAsync");
    let error = layout.search().unwrap_err();
    let reasons = reasons(&layout, &error);
    assert!(
        matches!(&reasons[..], [Reason::Open(_), Reason::TooOld { version: 11020 }, Reason::MissingRequired { .. }]),
        "{error}"
    );
}

#[test]
fn one_file_is_one_library_under_every_name() {
    let layout = Layout::new();
    let driver = layout.driver("lib/libcuda.so.580.1");
    let link = layout.path("lib/libcuda.so.1");
    symlink("libcuda.so.580.1", &link).unwrap();
    let library = load(&driver).unwrap();
    assert_eq!(library.path(), driver);
    assert!(std::ptr::eq(library, load(&driver).unwrap()));
    assert!(std::ptr::eq(library, load(&link).unwrap()));
    assert!(std::ptr::eq(library, layout.search().unwrap()));

    let copy = layout.driver("lib/copy.so");
    let other = load(&copy).unwrap();
    assert!(!std::ptr::eq(library, other));
    assert_ne!(library.functions().cuInit as usize, other.functions().cuInit as usize);
}

#[test]
fn threads_that_load_one_file_get_one_library() {
    let layout = Layout::new();
    let driver = layout.driver("libcuda.so.1");
    let loaded: Vec<usize> = thread::scope(|scope| {
        let loads: Vec<_> =
            (0..16).map(|_| scope.spawn(|| std::ptr::from_ref(load(&driver).unwrap()) as usize)).collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    assert!(loaded.windows(2).all(|pair| pair[0] == pair[1]), "{loaded:?}");
}

#[test]
fn a_failure_is_not_remembered() {
    let layout = Layout::new();
    let path = layout.path("libcuda.so.1");
    assert!(load(&path).is_err());
    layout.stub("libcuda.so.1");
    assert!(load(&path).is_err());
    fs::remove_file(layout.path("libcuda.so.1.sim")).unwrap();
    assert_eq!(load(&path).unwrap().path(), path);
}
