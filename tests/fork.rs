//! Children of a process that had initialised CUDA. They run in copies of this process, so this is a binary of its
//! own, and what a child finds out is its exit code.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use cupool::{
    Buffer, Context, ContextRef, Device, Driver, Error, Event, ForeignBuffer, Graph, ManagedBuffer, MemHandleTypes,
    MemPool, MemPoolProperties, RelaxedCaptureMode, Stream, TimedEvent, cuda_sys::CUresult, ipc::ImportedPool,
    release_failures,
};
use cupool_sim::Simulator;

/// Forks one child at a time, with no other test's thread at work: only the forking thread exists in the child.
static FORKING: Mutex<()> = Mutex::new(());

/// Runs `child` in a forked child; it must return true.
fn in_child(child: impl FnOnce() -> bool) {
    // SAFETY: the child runs only this crate's code and the simulated driver's, with no other thread at work when it
    // was forked, and ends without returning into the test harness.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed: {}", std::io::Error::last_os_error()),
        0 => {
            let passed = catch_unwind(AssertUnwindSafe(child));
            let code = match passed {
                Ok(true) => 0,
                Ok(false) => 1,
                Err(_) => 2,
            };
            // SAFETY: ends the child, and runs nothing of the parent's on the way.
            unsafe { libc::_exit(code) }
        }
        pid => expect_success(pid),
    }
}

/// Waits for a child, which must end well.
#[track_caller]
fn expect_success(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: the child is ours, and the call writes one status.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child was killed by signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "1: an answer was wrong, 2: the child panicked");
}

struct Objects {
    context: Context,
    pool: MemPool,
    stream: Arc<Stream>,
    event: TimedEvent,
}

fn objects(driver: Driver) -> Objects {
    let device = driver.device(0).unwrap();
    let context = device.primary_context().unwrap();
    let properties = MemPoolProperties::new().max_size(64 << 20);
    let pool = MemPool::with_properties(&device, &properties).unwrap();
    let stream = Arc::new(Stream::new(&context).unwrap());
    let event = TimedEvent::new(&context).unwrap();
    Objects { context, pool, stream, event }
}

/// The driver that `CUPOOL_TEST_DRIVER` names, and the simulator if it is one.
fn driver() -> (Driver, Option<Simulator>) {
    match std::env::var("CUPOOL_TEST_DRIVER").as_deref() {
        Ok("real") => (Driver::load().unwrap(), None),
        _ => {
            let simulator = Simulator::new();
            // SAFETY: every entry behaves as the driver's.
            (unsafe { Driver::from_functions(simulator.functions()) }, Some(simulator))
        }
    }
}

#[test]
fn a11_in_a_forked_child_every_call_says_so_and_every_drop_is_silent() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, simulator) = driver();
    let Objects { context, pool, stream, event } = objects(driver);
    let device = context.device();
    let mut buffer = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    let second = pool.alloc_zeroed::<u32, _>(100, Arc::new(Stream::new(&context).unwrap())).unwrap();
    buffer.copy_from(second.as_slice()).unwrap();
    let calls = || simulator.as_ref().map_or(0, Simulator::call_count);
    let before = calls();
    let failures = release_failures();
    in_child(|| {
        let forked = Error::ForkedAfterInit;
        let answers = [
            driver.init().err(),
            driver.version().err(),
            driver.device_count().err(),
            driver.device(0).err(),
            device.name().err(),
            device.primary_context().err(),
            context.synchronize().err(),
            context.memory_info().err(),
            stream.synchronize().err(),
            stream.query().err(),
            stream.wait_for(second.home()).err(),
            event.record(&stream).err(),
            event.query().err(),
            event.synchronize().err(),
            event.elapsed_ms_since(&event).err(),
            MemPool::new(&device).err(),
            Stream::new(&context).err(),
            Event::new(&context).err(),
            pool.usage().err(),
            pool.trim_to(0).err(),
            pool.alloc::<u8, _>(100, &*stream).err(),
            pool.alloc_zeroed::<u8, _>(100, &*stream).err(),
            buffer.fill(1).err(),
            buffer.copy_from_host(&[1; 100]).err(),
            buffer.copy_to_host(&mut [1; 100]).err(),
            buffer.copy_from(second.as_slice()).err(),
            buffer.free().err(),
        ];
        let all_forked = answers.iter().all(|answer| answer.as_ref() == Some(&forked));
        drop((second, event, stream, pool, context));
        all_forked && calls() == before && release_failures() == failures
    });
    // The child's copies were its own. The parent has dropped its objects by now, and they were released.
    if let Some(simulator) = &simulator {
        assert_eq!(MemPool::destroy_dropped(driver), Ok(0));
        let live = simulator.live();
        assert_eq!((live.allocations, live.streams, live.events, live.pools, live.primary_retains), (0, 0, 0, 0, 0));
        assert_eq!(simulator.findings(), []);
    }
}

#[test]
fn a11_loans_end_silently_in_the_child() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { context, pool, stream, .. } = objects(driver);
    let other = Stream::new(&context).unwrap();
    let failures = release_failures();
    let mut lent = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    let read = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    let forgotten = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    core::mem::forget(forgotten.read_on(&other).unwrap());
    let buffers = (lent.on(&other).unwrap(), read.read_on(&other).unwrap());
    // Both processes go on from here.
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    drop(buffers);
    drop((lent, read));
    let counted = release_failures() - failures;
    drop(forgotten);
    let lost = release_failures() - failures - counted;
    if pid == 0 {
        // SAFETY: ends the child, and runs nothing of the parent's on the way.
        unsafe { libc::_exit(i32::from(counted != 0 || lost != 0)) }
    }
    assert_eq!((counted, lost), (0, 1), "in the parent");
    expect_success(pid);
}

#[test]
fn a11_managed_memory_with_a_forgotten_loan_ends_silently_in_the_child() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { context, stream, .. } = objects(driver);
    let other = Stream::new(&context).unwrap();
    let forgotten = ManagedBuffer::<u32>::alloc(100, stream).unwrap();
    core::mem::forget(forgotten.read_on(&other).unwrap());
    let failures = release_failures();
    in_child(|| {
        drop(forgotten);
        release_failures() == failures
    });
    assert_eq!(release_failures() - failures, 1, "in the parent");
}

/// Somebody else has initialised the driver, and has said which device is meant, or which context.
#[test]
fn a11_a_fork_is_noticed_whoever_initialised_the_driver() {
    const TEST: &str = "a11_a_fork_is_noticed_whoever_initialised_the_driver";
    const DOOR: &str = "CUPOOL_TEST_FORK_DOOR";
    let Ok(door) = std::env::var(DOOR) else {
        // This process may have been told to notice forks by another test: each door in one of its own.
        for door in ["primary context", "borrowed context", "pool", "default pool"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let ended = child.args(["--exact", TEST, "--nocapture"]).env(DOOR, door).output().unwrap();
            assert!(ended.status.success(), "{door}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        return;
    };
    let (driver, _simulator) = driver();
    // SAFETY: anybody may call it at any time.
    assert_eq!(unsafe { (driver.functions().cuInit)(0) }, CUresult::CUDA_SUCCESS);
    let device = Device::from_raw(driver, 0);
    let forked = Error::ForkedAfterInit;
    match door.as_str() {
        "primary context" => {
            let context = device.primary_context().unwrap();
            in_child(|| context.synchronize() == Err(forked));
        }
        "borrowed context" => {
            let mut raw = core::ptr::null_mut();
            // SAFETY: the driver writes the context, which nobody releases.
            let retained = unsafe { (driver.functions().cuDevicePrimaryCtxRetain)(&raw mut raw, 0) };
            assert_eq!(retained, CUresult::CUDA_SUCCESS);
            // SAFETY: just retained, for ever.
            let context = unsafe { ContextRef::borrow_raw(device, raw) };
            in_child(|| context.synchronize() == Err(forked));
        }
        "pool" => {
            let pool = MemPool::with_properties(&device, &MemPoolProperties::new().max_size(64 << 20)).unwrap();
            in_child(|| pool.usage() == Err(forked));
        }
        _ => {
            let pool = MemPool::default_of(&device).unwrap();
            in_child(|| pool.usage() == Err(forked));
        }
    }
}

#[test]
fn a11_guards_and_limits_end_silently_in_the_child() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, simulator) = driver();
    let Objects { context, pool, stream, .. } = objects(driver);
    let mut current = objects(driver).pool;
    let device = context.device();
    pool.set_soft_limit(Some(1000));
    let guards = (MemPool::raise_default_threshold(&device, 1000).unwrap(), current.make_current().unwrap());
    let calls = || simulator.as_ref().map_or(0, Simulator::call_count);
    let (before, failures) = (calls(), release_failures());
    // Both processes go on from here.
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    if pid == 0 {
        let forked = Some(Error::ForkedAfterInit);
        let answers = [
            MemPool::raise_default_threshold(&device, 1).err(),
            Buffer::<u8, _>::from_current_pool(1, &*stream).err(),
            pool.alloc::<u8, _>(1, &*stream).err(),
            pool.trim_after(&stream, 0).err(),
            pool.access_of(&device).err(),
            device.graph_memory_usage().err(),
            device.trim_graph_memory().err(),
        ];
        pool.set_soft_limit(None);
        drop(guards);
        let refused = current.make_current().err() == forked && answers.iter().all(|answer| *answer == forked);
        drop((pool, current));
        let passed = refused && calls() == before && release_failures() == failures;
        // SAFETY: ends the child, and runs nothing of the parent's on the way.
        unsafe { libc::_exit(i32::from(!passed)) }
    }
    expect_success(pid);
    drop(guards);
    drop(pool.alloc::<u8, _>(1000, &*stream).unwrap());
    assert_eq!(MemPool::default_of(&device).unwrap().release_threshold(), Ok(0));
    assert_eq!(release_failures(), failures);
}

#[test]
fn a11_what_is_imported_is_left_to_the_parent() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, simulator) = driver();
    let Objects { context, stream, .. } = objects(driver);
    let properties = MemPoolProperties::new().max_size(64 << 20).handle_types(MemHandleTypes::POSIX_FD);
    let pool = MemPool::with_properties(&context.device(), &properties).unwrap();
    let imported = ImportedPool::from_fd(&context, pool.export_fd().unwrap()).unwrap();
    let buffer = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    let pointer = buffer.export().unwrap();
    // SAFETY: both are at home on one stream, and the import is released first.
    let import = || unsafe { imported.import::<u32, _>(&pointer, Arc::clone(&stream)) };
    let (view, again) = (import().unwrap(), import().unwrap());
    let failures = release_failures();
    let calls = || simulator.as_ref().map_or(0, Simulator::call_count);
    let before = calls();
    let forked = Error::ForkedAfterInit;
    // Both processes drop what they have.
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    if pid == 0 {
        let answers = [
            import().err(),
            imported.imports().err(),
            pool.export_fd().err(),
            buffer.export().err(),
            again.free().err(),
        ];
        drop((view, buffer));
        let silent = calls() == before && release_failures() == failures;
        let said = answers.iter().all(|answer| answer.as_ref() == Some(&forked));
        // SAFETY: ends the child, and runs nothing of the parent's on the way.
        unsafe { libc::_exit(i32::from(!said || !silent)) }
    }
    expect_success(pid);
    assert_eq!(view.to_vec().unwrap(), [0; 100]);
    drop((view, again, buffer));
    assert_eq!(release_failures(), failures);
}

#[test]
fn a11_the_parent_goes_on_as_before() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { context, pool, stream, event } = objects(driver);
    let mut buffer = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    in_child(|| stream.synchronize() == Err(Error::ForkedAfterInit));
    buffer.fill(5).unwrap();
    event.record(&stream).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [5; 100]);
    context.synchronize().unwrap();
}

#[test]
fn a11_no_elements_need_no_driver_in_the_child_either() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { pool, stream, .. } = objects(driver);
    in_child(|| pool.alloc::<u32, _>(0, &*stream).is_ok_and(|none| none.free().is_ok()));
}

#[test]
fn a11_a_childs_child_is_one_too() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { stream, .. } = objects(driver);
    in_child(|| {
        in_child(|| stream.synchronize() == Err(Error::ForkedAfterInit));
        true
    });
}

#[test]
fn a11_starting_another_program_is_fine() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { stream, .. } = objects(driver);
    assert!(Command::new("true").status().unwrap().success());
    stream.synchronize().unwrap();
}

#[test]
fn a11_owners_of_foreign_memory_and_tensors_stay_with_the_parent() {
    use core::sync::atomic::{AtomicUsize, Ordering};

    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { context, pool, stream, .. } = objects(driver);
    let memory = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    // SAFETY: the memory outlives what is made of it, and is at home on the same stream.
    let foreign = |owner| unsafe { ForeignBuffer::<u32, _, _>::new(memory.as_raw(), 100, Arc::clone(&stream), owner) };
    let ours = foreign(Counts(Arc::clone(&dropped))).map_err(|(error, _)| error).unwrap();
    let called = Arc::clone(&dropped);
    let release = move |_: &Stream| drop(Counts(called));
    // SAFETY: as above; nothing is to be released.
    let in_order = unsafe { ForeignBuffer::<u32, _, _>::with_release(memory.as_raw(), 100, &*stream, release) };
    let in_order = in_order.map_err(|(error, _)| error).unwrap();
    #[cfg(feature = "dlpack")]
    let tensor = {
        let buffer = pool.alloc_zeroed::<u32, _>(100, Arc::clone(&stream)).unwrap();
        buffer.into_dlpack(&[100], cupool::dlpack::ConsumerStream::LEGACY).map_err(|(error, _)| error).unwrap()
    };
    let failures = release_failures();
    // Both processes go on from here.
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    drop((ours, in_order));
    #[cfg(feature = "dlpack")]
    drop(tensor);
    let retired = context.drop_retired();
    let counted = release_failures() - failures;
    if pid == 0 {
        let silent = counted == 0 && dropped.load(Ordering::Relaxed) == 0 && retired == Err(Error::ForkedAfterInit);
        // SAFETY: ends the child, and runs nothing of the parent's on the way.
        unsafe { libc::_exit(i32::from(!silent)) }
    }
    assert_eq!((counted, dropped.load(Ordering::Relaxed)), (0, 2), "in the parent");
    expect_success(pid);
}

#[test]
fn a11_what_a_graph_keeps_is_left_to_the_parent() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { context, stream, .. } = objects(driver);
    let dropped = Arc::new(AtomicUsize::new(0));
    let kept = || {
        let record = |capture: &cupool::Capture<'_>| {
            capture.keep(Counts(Arc::clone(&dropped)));
            Ok(())
        };
        Graph::capture(&context, record).unwrap().0
    };
    let (launched, never) = (kept().instantiate(Default::default()), kept());
    let (mut launched, mut parked) = (launched.unwrap(), kept().instantiate(Default::default()).unwrap());
    // SAFETY: the graphs do nothing.
    unsafe { launched.launch(&stream).and_then(|()| parked.launch(&stream)) }.unwrap();
    drop(parked);
    // One already, if the device was done by then.
    let before = dropped.load(Ordering::Relaxed);
    let failures = release_failures();
    // Both processes go on from here.
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    let again = Graph::capture(&context, |_| Ok(())).map(drop);
    let trimmed = context.trim_graph_owners().map(drop);
    drop((launched, never, stream, context));
    let counted = release_failures() - failures;
    if pid == 0 {
        let forked = [again, trimmed].iter().all(|answer| *answer == Err(Error::ForkedAfterInit));
        let silent = forked && counted == 0 && dropped.load(Ordering::Relaxed) == before;
        // SAFETY: ends the child, and runs nothing of the parent's on the way.
        unsafe { libc::_exit(i32::from(!silent)) }
    }
    assert_eq!((again, trimmed, counted, dropped.load(Ordering::Relaxed)), (Ok(()), Ok(()), 0, 3), "in the parent");
    expect_success(pid);
}

#[test]
fn a11_a_lock_that_another_thread_held_at_the_fork_holds_up_no_child() {
    let _alone = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, _simulator) = driver();
    let Objects { stream, .. } = objects(driver);
    let _expected = RelaxedCaptureMode::new(driver);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                drop(RelaxedCaptureMode::new(driver));
            }
        });
        let statuses = (0..200).map(|_| {
            // SAFETY: the child calls this crate only, which makes no driver call there, and ends.
            match unsafe { libc::fork() } {
                // SAFETY: ends the child in any case, at the latest when the alarm goes off.
                0 => unsafe {
                    libc::alarm(2);
                    let answer = stream.synchronize();
                    libc::_exit(i32::from(answer != Err(Error::ForkedAfterInit)))
                },
                pid => {
                    let mut status = 0;
                    // SAFETY: the child is ours, and the call writes one status.
                    unsafe { libc::waitpid(pid, &raw mut status, 0) };
                    status
                }
            }
        });
        let failed = statuses.filter(|status| *status != 0).take(1).count();
        done.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0);
    });
}
