//! Processes that end while objects are alive. Each test runs its own executable again, as a child that ends in the
//! way the test is about.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

use core::cell::RefCell;
use std::{
    env,
    process::{Command, Output},
    sync::{Arc, Mutex, OnceLock},
};

use cupool::{Buffer, Driver, Event, MemPool, MemPoolProperties, Stream, release_failures};
use cupool_sim::{Simulator, Symbol};

const CHILD: &str = "CUPOOL_TEST_EXIT_CHILD";

/// Whether this process is the child of the test named so.
fn is_child(test: &str) -> bool {
    env::var(CHILD).is_ok_and(|name| name == test)
}

/// Runs the test named so in a child.
fn child(test: &str) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap()
}

#[track_caller]
fn expect_exit(output: &Output, code: i32) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&text));
}

/// A driver that lives as long as the process, and the simulator behind it where it is a simulated one.
fn driver() -> (Driver, Option<&'static Simulator>) {
    static SIMULATOR: OnceLock<Simulator> = OnceLock::new();
    if env::var("CUPOOL_TEST_DRIVER").is_ok_and(|which| which == "real") {
        return (Driver::load().unwrap(), None);
    }
    let simulator = SIMULATOR.get_or_init(Simulator::new);
    // SAFETY: every entry behaves as the driver's.
    (unsafe { Driver::from_functions(simulator.functions()) }, Some(simulator))
}

/// The kinds of object that there are, with work behind them.
type Objects = (Buffer<u8>, Buffer<u8>, Event, Arc<Stream>, MemPool);

fn objects(driver: Driver) -> Objects {
    let device = driver.device(0).unwrap();
    let context = device.primary_context().unwrap();
    let properties = MemPoolProperties { max_size: 64 << 20, ..MemPoolProperties::default() };
    let pool = MemPool::with_properties(&device, &properties).unwrap();
    let stream = Arc::new(Stream::new(&context).unwrap());
    let event = Event::new(&context).unwrap();
    let one = pool.alloc_zeroed(1000, Arc::clone(&stream)).unwrap();
    let mut other: Buffer<u8> = pool.alloc(1000, Arc::new(Stream::new(&context).unwrap())).unwrap();
    other.copy_from(one.as_slice()).unwrap();
    event.record(&stream).unwrap();
    (one, other, event, stream, pool)
}

/// Has the simulated driver shut down when the process's exit handlers run, as the real one does by itself.
#[cfg(unix)]
fn shut_down_at_exit() {
    extern "C" fn shut_down() {
        if let (_, Some(simulator)) = driver() {
            simulator.shut_down();
        }
    }
    // SAFETY: the handler is a function of this executable, and may run at any time.
    assert_eq!(unsafe { libc::atexit(shut_down) }, 0);
}

#[test]
fn c1_a_process_that_returns_with_objects_in_a_static_ends_well() {
    const TEST: &str = "c1_a_process_that_returns_with_objects_in_a_static_ends_well";
    static KEPT: Mutex<Option<Objects>> = Mutex::new(None);
    if is_child(TEST) {
        *KEPT.lock().unwrap() = Some(objects(driver().0));
        return;
    }
    expect_exit(&child(TEST), 0);
}

#[test]
#[cfg(unix)]
fn c1_objects_dropped_after_the_driver_shut_down_say_nothing() {
    const TEST: &str = "c1_objects_dropped_after_the_driver_shut_down_say_nothing";
    static KEPT: Mutex<Option<Objects>> = Mutex::new(None);
    extern "C" fn release() {
        let kept = KEPT.lock().unwrap().take();
        let before = release_failures();
        drop(kept);
        if release_failures() != before {
            // SAFETY: ends the process, with a code that the parent does not expect.
            unsafe { libc::_exit(21) }
        }
    }
    if is_child(TEST) {
        // Handlers run last in, first out: the driver shuts down, then the objects are dropped.
        // SAFETY: the handler is a function of this executable, and may run at any time.
        assert_eq!(unsafe { libc::atexit(release) }, 0);
        *KEPT.lock().unwrap() = Some(objects(driver().0));
        shut_down_at_exit();
        return;
    }
    expect_exit(&child(TEST), 0);
}

#[test]
#[cfg(unix)]
fn c1_objects_in_a_thread_local_of_a_thread_that_ends_at_exit_say_nothing() {
    const TEST: &str = "c1_objects_in_a_thread_local_of_a_thread_that_ends_at_exit_say_nothing";
    thread_local! {
        static KEPT: RefCell<Option<Objects>> = const { RefCell::new(None) };
    }
    if is_child(TEST) {
        std::thread::spawn(|| {
            KEPT.with(|kept| *kept.borrow_mut() = Some(objects(driver().0)));
            if let (_, Some(simulator)) = driver() {
                simulator.shut_down();
            }
        })
        .join()
        .unwrap();
        // Destructors of thread-locals have run when a thread is joined.
        assert_eq!(release_failures(), 0);
        return;
    }
    expect_exit(&child(TEST), 0);
}

#[test]
fn c1_objects_in_a_thread_local_are_released_when_their_thread_ends() {
    const TEST: &str = "c1_objects_in_a_thread_local_are_released_when_their_thread_ends";
    thread_local! {
        static KEPT: RefCell<Option<Objects>> = const { RefCell::new(None) };
    }
    if is_child(TEST) {
        std::thread::spawn(|| KEPT.with(|kept| *kept.borrow_mut() = Some(objects(driver().0)))).join().unwrap();
        assert_eq!(release_failures(), 0);
        if let (_, Some(simulator)) = driver() {
            let live = simulator.live();
            assert_eq!((live.allocations, live.streams, live.events, live.pools), (0, 0, 0, 0));
            assert_eq!(simulator.count(Symbol::cuMemFreeAsync), 2);
        }
        return;
    }
    expect_exit(&child(TEST), 0);
}

#[test]
fn c1_process_exit_keeps_its_code() {
    const TEST: &str = "c1_process_exit_keeps_its_code";
    if is_child(TEST) {
        let _objects = objects(driver().0);
        #[cfg(unix)]
        shut_down_at_exit();
        std::process::exit(17);
    }
    expect_exit(&child(TEST), 17);
}

#[test]
fn c1_a_panic_stays_one_panic() {
    const TEST: &str = "c1_a_panic_stays_one_panic";
    if is_child(TEST) {
        let _objects = objects(driver().0);
        if let (_, Some(simulator)) = driver() {
            simulator.shut_down();
        }
        panic!("on purpose");
    }
    let output = child(TEST);
    // The code of a test binary with a failed test; an abort would be a signal.
    expect_exit(&output, 101);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    assert_eq!(String::from_utf8_lossy(&text).matches("panicked at").count(), 1);
}
