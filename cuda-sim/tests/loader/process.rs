//! The search as it is, with the environment it goes by: each in a process of its own, where nothing is loaded yet.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use crate::layout::Layout;

/// Set for the process that does the search: what it is to load, one a line; nothing for [`cuda_sys::load`].
const CHILD: &str = "CUPOOL_TEST_CHILD";
const OVERRIDE: &str = cuda_sys::DRIVER_LIBRARY_VARIABLE;

/// Runs the search in a process that has these variables, in the test called `test`; gives what it prints.
fn search_in_child(test: &str, load: &str, variables: &[(&str, &OsStr)]) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("process::{test}"), "--nocapture", "--test-threads=1"])
        .env_remove(OVERRIDE)
        .env_remove("LD_LIBRARY_PATH")
        .env(CHILD, load)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok. 1 passed"), "{text}");
    text
}

/// Whether this is the process of [`search_in_child`]; if so, does the search and prints what came of it.
fn is_child() -> bool {
    let Ok(candidates) = env::var(CHILD) else { return false };
    let load = || {
        if candidates.is_empty() {
            return cuda_sys::load();
        }
        // SAFETY: the test names candidates that lead to simulated drivers.
        unsafe { cuda_sys::load_first(candidates.lines()) }
    };
    match (load(), load()) {
        (Ok(first), Ok(second)) => {
            assert!(std::ptr::eq(first, second));
            println!("\nloaded {}", first.path().display());
        }
        (Err(first), Err(second)) => {
            assert_eq!(first.to_string(), second.to_string());
            println!("\noverridden: {}\n{first}", first.is_overridden());
        }
        (first, second) => panic!("once {first:?}, once {second:?}"),
    }
    true
}

fn assert_loaded(text: &str, path: &Path) {
    assert!(text.lines().any(|line| line == format!("loaded {}", path.display())), "{text}");
}

/// A folder for the dynamic linker to search: `LD_LIBRARY_PATH` comes before every other place.
fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap().to_owned()
}

#[test]
fn a2_the_variable_chooses_the_file() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let chosen = layout.driver("anywhere/driver.so");
    let found = layout.driver("lib/libcuda.so.1");
    let text = search_in_child(
        "a2_the_variable_chooses_the_file",
        "",
        &[(OVERRIDE, chosen.as_os_str()), ("LD_LIBRARY_PATH", folder_of(&found).as_os_str())],
    );
    assert_loaded(&text, &chosen);
}

#[test]
fn a2_the_variable_may_give_a_name_to_search() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let chosen = layout.driver("lib/libmydriver.so");
    let text = search_in_child(
        "a2_the_variable_may_give_a_name_to_search",
        "",
        &[(OVERRIDE, "libmydriver.so".as_ref()), ("LD_LIBRARY_PATH", folder_of(&chosen).as_os_str())],
    );
    assert_loaded(&text, &chosen);
}

#[test]
fn a2_no_other_file_is_tried_if_the_chosen_one_fails() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let (absent, found) = (layout.path("no.so"), layout.driver("lib/libcuda.so.1"));
    let text = search_in_child(
        "a2_no_other_file_is_tried_if_the_chosen_one_fails",
        "",
        &[(OVERRIDE, absent.as_os_str()), ("LD_LIBRARY_PATH", folder_of(&found).as_os_str())],
    );
    assert!(
        text.contains("overridden: true\nno usable CUDA driver library (CUPOOL_DRIVER_LIBRARY chose it)"),
        "{text}"
    );
    assert!(text.contains(&format!("  {}: not opened: ", absent.display())), "{text}");
    assert!(text.contains("correct CUPOOL_DRIVER_LIBRARY, or unset it"), "{text}");
    assert!(!text.contains("libcuda"), "{text}");
}

#[test]
fn a2_an_empty_variable_chooses_nothing() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let found = layout.driver("lib/libcuda.so.1");
    let text = search_in_child(
        "a2_an_empty_variable_chooses_nothing",
        "",
        &[(OVERRIDE, "".as_ref()), ("LD_LIBRARY_PATH", folder_of(&found).as_os_str())],
    );
    assert_loaded(&text, &found);
}

#[test]
fn a2_the_linkers_search_path_is_searched() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let found = layout.driver("lib/libcuda.so.1");
    layout.driver("lib/libcuda.so");
    let text = search_in_child(
        "a2_the_linkers_search_path_is_searched",
        "",
        &[("LD_LIBRARY_PATH", folder_of(&found).as_os_str())],
    );
    assert_loaded(&text, &found);
}

/// A stub carries the driver's name inside. While it is open the linker takes it for `libcuda.so.1`.
#[test]
fn a3_a_stub_that_was_passed_over_is_not_found_again_by_its_inner_name() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let stub = layout.stub("sdk/libcuda.so");
    let driver = layout.driver("lib/libcuda.so.1");
    let text = search_in_child(
        "a3_a_stub_that_was_passed_over_is_not_found_again_by_its_inner_name",
        &format!("{}\nlibcuda.so.1", stub.display()),
        &[("LD_LIBRARY_PATH", folder_of(&driver).as_os_str())],
    );
    assert_loaded(&text, &driver);
}

#[test]
fn a3_a_stubs_folder_on_the_search_path_is_named() {
    if is_child() {
        return;
    }
    let layout = Layout::new();
    let stub = layout.driver("sdk/stubs/libcuda.so");
    let text = search_in_child(
        "a3_a_stubs_folder_on_the_search_path_is_named",
        "libcuda.so",
        &[("LD_LIBRARY_PATH", folder_of(&stub).as_os_str())],
    );
    assert!(text.contains(&format!("libcuda.so ({}): a file to link against", stub.display())), "{text}");
}
