//! Processes that end while objects are alive: every way to end, with every kind of object. Each test runs its own
//! executable again, as children that end in the way the test is about. They must end with the code that they chose,
//! by no signal that they did not ask for, and say nothing but what a panic says itself.
//!
//! With `CUPOOL_TEST_DRIVER=real` the driver is the system's; only tests that say so need a simulated one.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod exits {
    pub(crate) mod children;
    pub(crate) mod objects;
}

use core::{any::Any, cell::RefCell};
use std::{
    env,
    io::Error,
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{LazyLock, Mutex, OnceLock, PoisonError},
    thread,
};

use cupool::release_failures;
use exits::{
    children::{expect, expect_panic, expect_signal, kind},
    objects::{Object, driver, make},
};

/// Objects that a static keeps, or gives up when somebody takes them.
static KEPT: Mutex<Option<Object>> = Mutex::new(None);

fn keep(object: Object) {
    *KEPT.lock().unwrap() = Some(object);
}

/// Drops what is kept; ends the process with another code if that is counted as a failure.
extern "C" fn take() {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let before = release_failures();
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(kept)));
    let misused = driver().1.is_some_and(|simulator| !simulator.findings().is_empty());
    if dropped.is_err() || misused || release_failures() != before {
        // SAFETY: ends the process, with a code that the parent does not expect.
        unsafe { libc::_exit(99) }
    }
}

/// Has the simulated driver shut down, as the real one does by itself when the process's exit handlers run.
extern "C" fn shut_down() {
    if let Some(simulator) = driver().1 {
        simulator.shut_down();
    }
}

/// Handlers run last in, first out.
fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler is a function of this executable, and may run at any time.
    assert_eq!(unsafe { libc::atexit(handler) }, 0);
}

/// Runs `main` as a process's main function, on its main thread. The harness runs tests on other threads; but the
/// thread that forks is the only one in its child, and the driver is not loaded before.
fn as_main(main: impl FnOnce()) -> ! {
    // SAFETY: the only other thread is the harness's, which waits for this one and holds no lock that `main` takes.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed: {}", Error::last_os_error()),
        0 => {
            #[cfg(target_os = "linux")]
            // SAFETY: both only answer numbers.
            assert_eq!(unsafe { libc::gettid() }, unsafe { libc::getpid() });
            // What a main function's return and its panic come to.
            process::exit(catch_unwind(AssertUnwindSafe(main)).map_or(101, |()| 0))
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is ours, and the call writes one status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 97 };
            // SAFETY: ends the process, whose own end the test is not about.
            unsafe { libc::_exit(code) }
        }
    }
}

#[test]
fn c1_return_from_main() {
    const TEST: &str = "c1_return_from_main";
    if let Some(kind) = kind(TEST) {
        as_main(|| {
            let _object = make(&kind);
            at_exit(shut_down);
        });
    }
    expect(TEST, 0);
}

#[test]
fn c1_return_from_a_test() {
    const TEST: &str = "c1_return_from_a_test";
    if let Some(kind) = kind(TEST) {
        let _object = make(&kind);
        at_exit(shut_down);
        return;
    }
    expect(TEST, 0);
}

#[test]
fn c1_a_panic_in_main_stays_one_panic() {
    const TEST: &str = "c1_a_panic_in_main_stays_one_panic";
    if let Some(kind) = kind(TEST) {
        as_main(|| {
            let _object = make(&kind);
            at_exit(shut_down);
            panic!("on purpose");
        });
    }
    expect_panic(TEST, 101);
}

#[test]
fn c1_return_from_main_with_a_once_lock_that_is_never_dropped() {
    const TEST: &str = "c1_return_from_main_with_a_once_lock_that_is_never_dropped";
    static ONCE: OnceLock<Mutex<Object>> = OnceLock::new();
    if let Some(kind) = kind(TEST) {
        assert!(ONCE.set(Mutex::new(make(&kind))).is_ok());
        at_exit(shut_down);
        return;
    }
    expect(TEST, 0);
}

#[test]
fn c1_return_from_main_with_a_lazy_lock_that_is_never_dropped() {
    const TEST: &str = "c1_return_from_main_with_a_lazy_lock_that_is_never_dropped";
    static LAZY: LazyLock<Mutex<Object>> = LazyLock::new(|| Mutex::new(make(&kind(TEST).unwrap())));
    if kind(TEST).is_some() {
        assert!(LAZY.lock().is_ok());
        at_exit(shut_down);
        return;
    }
    expect(TEST, 0);
}

#[test]
fn c1_process_exit_keeps_its_code() {
    const TEST: &str = "c1_process_exit_keeps_its_code";
    if let Some(kind) = kind(TEST) {
        let _object = make(&kind);
        at_exit(shut_down);
        process::exit(17);
    }
    expect(TEST, 17);
}

#[test]
fn c1_process_exit_in_another_thread_keeps_its_code() {
    const TEST: &str = "c1_process_exit_in_another_thread_keeps_its_code";
    if let Some(kind) = kind(TEST) {
        let _object = make(&kind);
        thread::scope(|scope| drop(scope.spawn(|| process::exit(18))));
    }
    expect(TEST, 18);
}

#[test]
fn c1_a_panic_stays_one_panic() {
    const TEST: &str = "c1_a_panic_stays_one_panic";
    if let Some(kind) = kind(TEST) {
        let _object = make(&kind);
        panic!("on purpose");
    }
    // The code of a test binary with a failed test; an abort would be a signal.
    expect_panic(TEST, 101);
}

#[test]
fn c1_a_panic_after_the_driver_shut_down_stays_one_panic() {
    const TEST: &str = "c1_a_panic_after_the_driver_shut_down_stays_one_panic";
    if let Some(kind) = kind(TEST) {
        let _object = make(&kind);
        shut_down();
        panic!("on purpose");
    }
    expect_panic(TEST, 101);
}

#[test]
fn c1_a_panic_in_another_thread_ends_that_thread_only() {
    const TEST: &str = "c1_a_panic_in_another_thread_ends_that_thread_only";
    if let Some(kind) = kind(TEST) {
        let _here = make(&kind);
        let there = thread::spawn(move || {
            let _there = make(&kind);
            panic!("on purpose");
        });
        assert!(there.join().is_err_and(|payload| payload.is::<&str>()));
        assert_eq!(release_failures(), 0);
        return;
    }
    expect_panic(TEST, 0);
}

#[test]
fn c1_an_abort_is_an_abort_and_says_nothing() {
    const TEST: &str = "c1_an_abort_is_an_abort_and_says_nothing";
    if let Some(kind) = kind(TEST) {
        let _object = make(&kind);
        process::abort();
    }
    expect_signal(TEST, libc::SIGABRT);
}

thread_local! {
    static LOCAL: RefCell<Option<Object>> = const { RefCell::new(None) };
}

#[test]
fn c1_a_thread_local_is_released_when_its_thread_ends() {
    const TEST: &str = "c1_a_thread_local_is_released_when_its_thread_ends";
    if let Some(kind) = kind(TEST) {
        let calls = || driver().1.map(|simulator| simulator.call_count());
        let local = move || {
            LOCAL.set(Some(make(&kind)));
            calls()
        };
        let before = thread::spawn(local).join().unwrap();
        // Destructors of thread-locals have run when a thread is joined.
        assert!(calls().zip(before).is_none_or(|(after, before)| after > before), "nothing was released");
        assert_eq!(release_failures(), 0);
        return;
    }
    expect(TEST, 0);
}

/// Its destructors run when the process's exit handlers do.
#[test]
fn c1_a_thread_local_of_the_main_thread() {
    const TEST: &str = "c1_a_thread_local_of_the_main_thread";
    if let Some(kind) = kind(TEST) {
        as_main(|| {
            at_exit(shut_down);
            LOCAL.set(Some(make(&kind)));
        });
    }
    expect(TEST, 0);
}

#[test]
fn c1_a_static_taken_at_exit_of_the_main_thread() {
    const TEST: &str = "c1_a_static_taken_at_exit_of_the_main_thread";
    if let Some(kind) = kind(TEST) {
        as_main(|| {
            at_exit(take);
            keep(make(&kind));
            at_exit(shut_down);
        });
    }
    expect(TEST, 0);
}

#[test]
fn c1_a_thread_local_of_a_thread_that_ends_after_the_driver_says_nothing() {
    const TEST: &str = "c1_a_thread_local_of_a_thread_that_ends_after_the_driver_says_nothing";
    if let Some(kind) = kind(TEST) {
        thread::spawn(move || {
            LOCAL.set(Some(make(&kind)));
            shut_down();
        })
        .join()
        .unwrap();
        assert_eq!(release_failures(), 0);
        return;
    }
    expect(TEST, 0);
}

#[test]
fn c1_a_thread_local_of_a_thread_that_runs_while_the_process_ends() {
    const TEST: &str = "c1_a_thread_local_of_a_thread_that_runs_while_the_process_ends";
    if let Some(kind) = kind(TEST) {
        let (ready, wait) = std::sync::mpsc::channel();
        thread::spawn(move || {
            LOCAL.set(Some(make(&kind)));
            ready.send(()).unwrap();
            thread::park();
        });
        wait.recv().unwrap();
        at_exit(shut_down);
        process::exit(19);
    }
    expect(TEST, 19);
}

#[test]
fn c1_a_static_taken_at_exit_before_the_driver_ends() {
    const TEST: &str = "c1_a_static_taken_at_exit_before_the_driver_ends";
    if let Some(kind) = kind(TEST) {
        at_exit(shut_down);
        keep(make(&kind));
        at_exit(take);
        process::exit(20);
    }
    expect(TEST, 20);
}

#[test]
fn c1_a_static_taken_at_exit_after_the_driver_ended() {
    const TEST: &str = "c1_a_static_taken_at_exit_after_the_driver_ended";
    if let Some(kind) = kind(TEST) {
        // Before the driver is loaded, and with it the handlers of its own.
        at_exit(take);
        keep(make(&kind));
        at_exit(shut_down);
        process::exit(21);
    }
    expect(TEST, 21);
}

/// Runs `work` in a forked child, which ends without its exit handlers; it must return true.
fn in_fork(work: impl FnOnce() -> bool) {
    // SAFETY: the child runs only this crate's code and the driver's; other threads of this process, which is one that
    // a test began for this, only wait.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed: {}", Error::last_os_error()),
        0 => {
            let passed = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the child, and runs nothing of its parent's on the way.
            unsafe { libc::_exit(i32::from(!passed)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is ours, and the call writes one status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        }
    }
}

#[test]
fn a11_a_forked_child_drops_its_copy_in_silence_and_the_parent_its_own() {
    const TEST: &str = "a11_a_forked_child_drops_its_copy_in_silence_and_the_parent_its_own";
    if let Some(kind) = kind(TEST) {
        let mut object = Some(make(&kind));
        let calls = || driver().1.map_or(0, |simulator| simulator.call_count());
        in_fork(|| {
            let before = calls();
            drop(object.take());
            release_failures() == 0 && calls() == before
        });
        drop(object);
        assert_eq!(release_failures(), 0);
        return;
    }
    expect(TEST, 0);
}

#[test]
fn a11_a_forked_child_leaves_without_dropping() {
    const TEST: &str = "a11_a_forked_child_leaves_without_dropping";
    if let Some(kind) = kind(TEST) {
        let _object: Box<dyn Any> = make(&kind);
        in_fork(|| true);
        return;
    }
    expect(TEST, 0);
}

#[test]
fn a11_simulated_only_a_forked_child_exits_with_its_handlers() {
    const TEST: &str = "a11_simulated_only_a_forked_child_exits_with_its_handlers";
    if let Some(kind) = kind(TEST) {
        // What a real driver's handlers do in a child that inherited it is not this crate's.
        assert!(driver().1.is_some());
        keep(make(&kind));
        at_exit(take);
        // SAFETY: as in `in_fork`; the child runs its exit handlers too.
        match unsafe { libc::fork() } {
            -1 => panic!("fork failed: {}", Error::last_os_error()),
            0 => process::exit(0),
            child => {
                let mut status = 0;
                // SAFETY: the child is ours, and the call writes one status.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                process::exit(if status == 0 { 22 } else { 98 });
            }
        }
    }
    if env::var("CUPOOL_TEST_DRIVER").is_ok() {
        // It is about handlers and this crate, whatever the other tests run on.
        exits::children::simulated(TEST, 22);
    } else {
        expect(TEST, 22);
    }
}

#[test]
fn children_are_told_apart() {
    const TEST: &str = "children_are_told_apart";
    if let Some(kind) = kind(TEST) {
        if kind == "context" {
            eprintln!("a word too many");
        }
        process::exit(if kind == "stream" { 23 } else { 0 });
    }
    for wrong in ["context", "stream"] {
        assert!(catch_unwind(|| exits::children::expect_of(TEST, wrong, 0)).is_err(), "{wrong}");
    }
    exits::children::expect_of(TEST, "event", 0);
}
