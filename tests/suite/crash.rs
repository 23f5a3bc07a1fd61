//! A crash in the driver: says in which test it came and where, which the harness alone does not.

/// From now on a signal that would end the process does so with a message.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn announce() {
    use std::{ffi::c_int, ptr, sync::Once, thread};

    extern "C" fn tell(signal: c_int) {
        let thread = thread::current();
        let mut frames = [ptr::null_mut(); 64];
        // SAFETY: the frames are written before they are read. None of this is promised to work in a signal handler; but the
        // process ends in any case, by a second signal if need be, which is not caught.
        unsafe {
            for text in ["\n*** a signal in ", thread.name().unwrap_or("an unnamed thread"), "\n"] {
                libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            }
            let count = libc::backtrace(frames.as_mut_ptr(), 64);
            libc::backtrace_symbols_fd(frames.as_ptr(), count, libc::STDERR_FILENO);
            libc::raise(signal);
        }
    }

    static ANNOUNCED: Once = Once::new();
    ANNOUNCED.call_once(|| {
        let handler: extern "C" fn(c_int) = tell;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT] {
            // SAFETY: the action is one of zeros but for the handler and a flag, which the types allow.
            let code = unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = handler as libc::sighandler_t;
                // On the thread's own stack: the alternative ones are too small for this.
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigaction(signal, &raw const action, ptr::null_mut())
            };
            assert_eq!(code, 0);
        }
    });
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn announce() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_crash_says_in_which_test_it_came_and_where() {
    use std::{env, os::unix::process::ExitStatusExt, process::Command};

    const NAME: &str = "crash::a_crash_says_in_which_test_it_came_and_where";
    const CHILD: &str = "CUPOOL_TEST_CRASHES";
    if env::var_os(CHILD).is_some() {
        announce();
        // SAFETY: it ends the process, which is the point.
        unsafe { libc::raise(libc::SIGSEGV) };
    }
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture", "--test-threads", "2"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(libc::SIGSEGV), "{told}");
    assert!(told.contains(&format!("a signal in {NAME}")), "{told}");
    let binary = env::current_exe().unwrap();
    let name = binary.file_name().unwrap().to_str().unwrap();
    assert!(told.lines().any(|line| line.contains(&format!("{name}(+0x"))), "{told}");
}
