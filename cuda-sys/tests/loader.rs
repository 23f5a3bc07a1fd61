//! What the loader makes of an ordinary machine. Its tests against drivers of every kind are the simulated driver's:
//! `cuda-sim/tests/loader`.

use cupool_sys::{Library, LoadError, Reason, load, load_first, load_from};

/// A library that every program has, and that is no driver.
const SYSTEM_LIBRARY: &str = if cfg!(windows) {
    "kernel32.dll"
} else if cfg!(target_os = "macos") {
    "/usr/lib/libSystem.B.dylib"
} else {
    "libc.so.6"
};

#[test]
fn another_library_is_not_a_driver() {
    // SAFETY: the library is loaded in every program, this one included.
    let error = unsafe { load_from(SYSTEM_LIBRARY) }.unwrap_err();
    let [attempt] = error.attempts() else { panic!("{error}") };
    assert_eq!(attempt.candidate.to_str(), Some(SYSTEM_LIBRARY));
    assert_eq!(attempt.reason, Reason::NotADriver { missing: "cuDriverGetVersion" });
}

#[test]
fn candidates_are_tried_in_the_order_given() {
    let names = ["libcupool-no-such-library.so", SYSTEM_LIBRARY, "/no such folder/libcuda.so"];
    // SAFETY: the only one that exists is loaded in every program, this one included.
    let error = unsafe { load_first(names) }.unwrap_err();
    let attempts = error.attempts().iter();
    assert!(attempts.clone().map(|attempt| attempt.candidate.to_str()).eq(names.map(Some)));
    assert!(
        matches!(
            attempts.map(|attempt| &attempt.reason).collect::<Vec<_>>()[..],
            [Reason::Open(_), Reason::NotADriver { .. }, Reason::Open(_)]
        ),
        "{error}"
    );
}

#[test]
fn the_first_answer_stays_the_answer() {
    match (load(), load()) {
        (Ok(first), Ok(second)) => assert!(std::ptr::eq(first, second)),
        (Err(first), Err(second)) => assert_eq!(first.to_string(), second.to_string()),
        (first, second) => panic!("once {first:?}, once {second:?}"),
    }
}

#[test]
fn what_is_loaded_is_shared_by_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Library>();
    shared::<&'static Library>();
    shared::<LoadError>();
}
