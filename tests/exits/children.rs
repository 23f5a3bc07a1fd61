//! Children: this executable again, for one test and one kind of object.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
};

use super::objects::KINDS;

const TEST: &str = "CUPOOL_TEST_EXIT_CHILD";
const KIND: &str = "CUPOOL_TEST_EXIT_KIND";

/// The kind of object, if this process is a child of the test named so.
pub(crate) fn kind(test: &str) -> Option<String> {
    env::var(TEST).is_ok_and(|name| name == test).then(|| env::var(KIND).unwrap())
}

fn command(test: &str, kind: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(TEST, test).env(KIND, kind);
    command.env("RUST_BACKTRACE", "0");
    command
}

/// Runs a child for each kind of object; each must end with the code, and say nothing.
#[track_caller]
pub(crate) fn expect(test: &str, code: i32) {
    for kind in KINDS {
        expect_of(test, kind, code);
    }
}

#[track_caller]
pub(crate) fn expect_of(test: &str, kind: &str, code: i32) {
    check(kind, &command(test, kind).output().unwrap(), Some(code), "");
}

/// The same, on the simulated driver whatever the other tests run on.
#[track_caller]
pub(crate) fn simulated(test: &str, code: i32) {
    for kind in KINDS {
        let output = command(test, kind).env_remove("CUPOOL_TEST_DRIVER").output().unwrap();
        check(kind, &output, Some(code), "");
    }
}

/// The same, but one panic says what it has to say.
#[track_caller]
pub(crate) fn expect_panic(test: &str, code: i32) {
    for kind in KINDS {
        check(kind, &command(test, kind).output().unwrap(), Some(code), "on purpose");
    }
}

/// The same, but a signal ends each.
#[track_caller]
pub(crate) fn expect_signal(test: &str, signal: i32) {
    for kind in KINDS {
        let output = command(test, kind).output().unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{kind}: {}", said(&output));
        check(kind, &output, None, "");
    }
}

#[track_caller]
fn check(kind: &str, output: &Output, code: Option<i32>, panic: &str) {
    assert_eq!(output.status.code(), code, "{kind}: {}, {}", output.status, said(output));
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut lines = errors.lines().filter(|line| !line.is_empty());
    if !panic.is_empty() {
        // Where, what, and how to learn more.
        assert!(lines.next().is_some_and(|line| line.contains("panicked at tests/exits.rs")), "{kind}: {errors}");
        assert_eq!(lines.next(), Some(panic), "{kind}");
        assert!(lines.next().is_none_or(|line| line.starts_with("note: run with `RUST_BACKTRACE")), "{kind}: {errors}");
    }
    assert_eq!(lines.next(), None, "{kind} said more than it should: {errors}");
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}
