//! What only several processes can show: memory and events that they share, and that none of it is left behind.
//!
//! With `CUPOOL_TEST_DRIVER=real` the driver is the system's, else each process has a simulated one; those share memory
//! on Linux.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

#[path = "../examples/share/channel.rs"]
mod channel;
#[path = "../examples/share/roles.rs"]
mod roles;

use std::{
    env, fs, process,
    process::Command,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use cupool::{
    Context, Driver, MemHandleTypes, MemPool, MemPoolProperties, Stream,
    ipc::{ExportedPointer, ImportedPool},
};
use cupool_sim::Simulator;

/// Set in a process that a test of that name started.
const CHILD: &str = "CUPOOL_TEST_SHARE_CHILD";

/// What a process has open is counted, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn driver() -> Driver {
    static SIMULATOR: OnceLock<Simulator> = OnceLock::new();
    match env::var("CUPOOL_TEST_DRIVER") {
        Ok(which) if which == "real" => Driver::load().unwrap(),
        Ok(other) => panic!("CUPOOL_TEST_DRIVER is {other:?}; set it to \"real\", or not at all"),
        Err(_) => {
            let simulator = SIMULATOR.get_or_init(|| Simulator::builder().record_calls(false).build());
            // SAFETY: every entry behaves as the driver's, and the simulator is never dropped.
            unsafe { Driver::from_functions(simulator.functions()) }
        }
    }
}

/// This executable again, for one role in one test.
fn child(test: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1", "--include-ignored"]);
    command.env(CHILD, format!("{test} {role}"));
    command
}

/// What this process is to do for the test, if another started it for that.
fn role(test: &str) -> Option<String> {
    let child = env::var(CHILD).ok()?;
    child.strip_prefix(test).map(|role| role.trim_start().to_owned())
}

/// Ends the process if it takes too long: what waits for another process could wait for ever.
struct Watch(#[expect(dead_code, reason = "its end is noticed")] Sender<()>);

impl Watch {
    fn start() -> Self {
        let (alive, ended) = channel();
        thread::spawn(move || {
            if ended.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("two minutes have passed");
                process::abort();
            }
        });
        Self(alive)
    }
}

#[test]
fn two_processes_share_a_buffer_and_take_turns_by_events() {
    const NAME: &str = "two_processes_share_a_buffer_and_take_turns_by_events";
    let _watch = Watch::start();
    if role(NAME).is_some() {
        return roles::import(driver()).unwrap();
    }
    let _alone = alone();
    for _ in 0..3 {
        roles::export(driver(), &mut child(NAME, "import")).unwrap();
    }
}

#[test]
fn i11_an_import_outlives_its_exporting_process_without_harm_to_this_one() {
    const NAME: &str = "i11_an_import_outlives_its_exporting_process_without_harm_to_this_one";
    let _watch = Watch::start();
    match role(NAME).as_deref() {
        Some("export") => return export_and_end(),
        Some(_) => {}
        // A driver may take what happens here for a fault that lasts: that is to be another process's.
        None => {
            let _alone = alone();
            assert!(child(NAME, "import").status().unwrap().success());
            return;
        }
    }
    let (mut channel, theirs) = channel::Channel::pair().unwrap();
    let mut exporter = child(NAME, "export").stdin(theirs).spawn().unwrap();
    let context = driver().device(0).unwrap().primary_context().unwrap();
    let stream = Stream::new(&context).unwrap();
    let pool = ImportedPool::from_fd(&context, channel.receive_file().unwrap()).unwrap();
    let pointer = ExportedPointer::from_bytes(&channel.receive::<{ ExportedPointer::BYTES }>().unwrap()).unwrap();
    // SAFETY: the exporter has waited for its stream. That it ends before the import is against the rules; nothing is
    // done with the memory after that, and what the release comes to is what is tried here.
    let buffer = unsafe { pool.import::<u32, _>(&pointer, &stream) }.unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [5; 1000]);
    channel.send(b".").unwrap();
    assert!(exporter.wait().unwrap().success());
    // Answered one way or the other, once, and no more than that.
    println!("the release: {:?}", buffer.free());
    println!("the stream: {:?}", stream.synchronize());
    drop(pool);
}

/// Exports one buffer, and ends without a word to anybody when it is told to.
fn export_and_end() {
    let mut channel = channel::Channel::of_stdin().unwrap();
    let context = driver().device(0).unwrap().primary_context().unwrap();
    let stream = Stream::new(&context).unwrap();
    let pool = exportable(&context);
    let buffer = pool.alloc_from_host(&[5_u32; 1000], &stream).unwrap();
    stream.synchronize().unwrap();
    channel.send_file(pool.export_fd().unwrap()).unwrap();
    channel.send(&buffer.export().unwrap().to_bytes()).unwrap();
    channel.receive::<1>().unwrap();
    process::exit(0);
}

fn exportable(context: &Context) -> MemPool {
    let properties = MemPoolProperties::new().max_size(32 << 20).handle_types(MemHandleTypes::POSIX_FD);
    MemPool::with_properties(&context.device(), &properties).unwrap()
}

/// What the process has open and mapped: descriptors, and pages of address space.
fn held() -> (usize, usize) {
    let files = fs::read_dir("/proc/self/fd").unwrap().count();
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    (files, pages.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn i10_a_thousand_shares_leave_descriptors_memory_and_addresses_as_they_were() {
    const NAME: &str = "i10_a_thousand_shares_leave_descriptors_memory_and_addresses_as_they_were";
    // In a process of its own: threads of the test harness come and go, with what they map.
    if role(NAME).is_none() {
        let _alone = alone();
        assert!(child(NAME, "share").status().unwrap().success());
        return;
    }
    let context = driver().device(0).unwrap().primary_context().unwrap();
    let stream = Stream::new(&context).unwrap();
    let keeper = exportable(&context);
    let cycle = |pool: &MemPool| {
        let buffer = pool.alloc_from_host(&[3_u32; 1000], &stream).unwrap();
        let imported = ImportedPool::from_fd(&context, pool.export_fd().unwrap()).unwrap();
        let pointer = ExportedPointer::from_bytes(&buffer.export().unwrap().to_bytes()).unwrap();
        // SAFETY: the memory was allocated and written on the same stream, and is freed there after the import.
        let views = unsafe { [(); 2].map(|()| imported.import::<u32, _>(&pointer, &stream).unwrap()) };
        assert_eq!(views[1].to_vec().unwrap(), [3; 1000]);
        drop(views);
        drop(buffer);
        stream.synchronize().unwrap();
        assert_eq!(pool.usage().unwrap().used, 0);
    };
    let share = |times: usize| {
        for turn in 0..times {
            // A pool of its own now and then: its handles must come back too.
            if turn % 10 == 0 { cycle(&exportable(&context)) } else { cycle(&keeper) }
        }
    };
    share(100);
    let before = held();
    share(1000);
    let after = held();
    assert_eq!(after.0, before.0, "file descriptors");
    // A driver keeps some things for later; a pool that stays would be 8192 pages, and a page for each share 1000.
    assert!(after.1 < before.1 + 1000, "pages of address space: {} before, {} after", before.1, after.1);
}
