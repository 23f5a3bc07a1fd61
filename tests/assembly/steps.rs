//! Counts instructions by single steps.

use std::{hint::black_box, ptr};

use crate::{operations::Form, stand_ins};

const MARK: i32 = libc::SIGUSR1;

/// The instructions that `form` executes, with a little of what is around it.
#[allow(clippy::expect_used, reason = "a program for tests")]
pub(crate) fn count(form: Form) -> u64 {
    // SAFETY: this process has one thread. It has not initialised a driver, so the child may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut world = stand_ins::world();
        let mut work = || black_box(form)(black_box(&mut world)).expect("calls that succeed");
        // Without counting, so that whatever is done on first use is done.
        work();
        work();
        // SAFETY: plain system calls.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), ptr::null_mut::<u8>());
            libc::raise(MARK);
            work();
            libc::raise(MARK);
            libc::_exit(0);
        }
    }
    assert!(child > 0, "fork failed");
    let wait = || {
        let mut status = 0;
        // SAFETY: the status is a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSTOPPED(status), "the child ended early: {status:#x}");
        libc::WSTOPSIG(status)
    };
    assert_eq!(wait(), MARK);
    let mut steps = 0;
    loop {
        // SAFETY: the child is stopped, and traced by this process.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
        match wait() {
            MARK => break,
            _ => steps += 1,
        }
    }
    // SAFETY: as above.
    unsafe { libc::ptrace(libc::PTRACE_KILL, child, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
    let mut status = 0;
    // SAFETY: the status is a local variable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    steps
}
