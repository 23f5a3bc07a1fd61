//! Random programs that keep CUDA's rules: whatever the order that a seed chooses, contents are right, nothing is
//! found, and nothing is left.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::ffi::c_void;
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering::SeqCst},
    mpsc,
};

use cuda_sys::*;
use cupool_sim::Simulator;
use rig::{OK, Rig};

/// Xorshift, so that programs do not depend on the simulator's own choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// A buffer with the stream that its last use was on.
struct Held {
    pointer: u64,
    bytes: usize,
    value: u8,
    stream: usize,
}

/// Runs a program of that many steps; answers how many calls it made.
fn run(seed: u64, steps: usize, late: bool) -> u64 {
    let rig = Rig::with(Simulator::builder().seed(seed).pageable_async(late).record_calls(false));
    let streams = [rig.stream(), rig.stream(), rig.stream_with(0), rig.stream()];
    let event = rig.event(2);
    let pools = [rig.pool(), rig.pool_of(64 << 20)];
    rig.keep_memory(pools[0]);
    let mut held: Vec<Held> = Vec::new();
    let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..steps {
        let stream = choices.below(streams.len());
        match choices.below(10) {
            0..3 => {
                let most = [64, 5000, 100_000][choices.below(3)];
                let bytes = 1 + choices.below(most);
                let value = choices.below(256) as u8;
                let pointer = rig.alloc(bytes, pools[choices.below(2)], streams[stream]).unwrap();
                assert_eq!(rig.fill(pointer, value, bytes, streams[stream]), OK);
                held.push(Held { pointer, bytes, value, stream });
            }
            3..6 if !held.is_empty() => {
                let at = choices.below(held.len());
                let Held { pointer, stream, .. } = held.swap_remove(at);
                assert_eq!(rig.free(pointer, streams[stream]), OK);
            }
            6 if !held.is_empty() => {
                let at = choices.below(held.len());
                let buffer = &mut held[at];
                assert_eq!(rig.record(event, streams[buffer.stream]), OK);
                assert_eq!(rig.wait(streams[stream], event), OK);
                buffer.stream = stream;
            }
            7 if held.len() > 1 => {
                let (to, from) = (choices.below(held.len()), choices.below(held.len()));
                if to != from {
                    let bytes = held[to].bytes.min(held[from].bytes);
                    let (to_stream, from_stream) = (streams[held[to].stream], streams[held[from].stream]);
                    assert_eq!(rig.record(event, from_stream), OK);
                    assert_eq!(rig.wait(to_stream, event), OK);
                    let (target, source) = (held[to].pointer, held[from].pointer);
                    assert_eq!(unsafe { (rig.cuda.cuMemcpyDtoDAsync)(target, source, bytes, to_stream) }, OK);
                    assert_eq!(rig.record(event, to_stream), OK);
                    assert_eq!(rig.wait(from_stream, event), OK);
                    (held[to].bytes, held[to].value) = (bytes, held[from].value);
                }
            }
            8 if !held.is_empty() => {
                let buffer = &held[choices.below(held.len())];
                let bytes = buffer.bytes.min(64);
                assert_eq!(rig.download(buffer.pointer, bytes, streams[buffer.stream]), vec![buffer.value; bytes]);
            }
            9 if choices.below(8) == 0 => assert_eq!(rig.sync(streams[stream]), OK),
            _ => {}
        }
    }
    for Held { pointer, stream, .. } in held {
        assert_eq!(rig.free(pointer, streams[stream]), OK);
    }
    for stream in &streams {
        assert_eq!(rig.sync(*stream), OK);
    }
    for pool in pools {
        assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(pool) }, OK);
    }
    for stream in streams {
        assert_eq!(rig.destroy_stream(stream), OK);
    }
    assert_eq!(unsafe { (rig.cuda.cuEventDestroy)(event) }, OK);
    assert_eq!(unsafe { (rig.cuda.cuCtxSynchronize.unwrap())() }, OK);
    assert!(rig.sim.findings().is_empty(), "seed {seed}: {}", rig.sim.findings()[0]);
    let live = rig.sim.live();
    let left = (live.allocations, live.reserved_bytes, live.address_space, live.pools, live.streams, live.events);
    assert_eq!(left, (0, 0, 0, 0, 0, 0), "seed {seed}");
    assert_eq!(live.pending_operations, 0);
    rig.sim.call_count()
}

#[test]
fn programs_that_keep_the_rules_come_out_right_for_every_seed() {
    for seed in 0..100 {
        run(seed, 300, seed % 2 == 1);
    }
}

/// `cargo test --release -p cupool-sim --test programs -- --ignored --nocapture` prints the rate.
#[test]
#[ignore = "a measurement, not a check"]
fn rate_of_calls() {
    let start = std::time::Instant::now();
    let calls: u64 = (0..1000).map(|seed| run(seed, 1000, false)).sum();
    let elapsed = start.elapsed();
    println!("{calls} calls in {elapsed:?}: {:.0} ns each", elapsed.as_nanos() as f64 / calls as f64);
}

#[test]
fn threads_use_one_pool_at_the_same_time() {
    let rig = Rig::with(Simulator::builder().seed(3));
    let pool = rig.pool().expose_provenance();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let stream = rig.stream().expose_provenance();
            let rig = &rig;
            scope.spawn(move || {
                let pool: CUmemoryPool = core::ptr::with_exposed_provenance_mut(pool);
                let stream: CUstream = core::ptr::with_exposed_provenance_mut(stream);
                for _ in 0..200 {
                    let pointer = rig.alloc(100, pool, stream).unwrap();
                    assert_eq!(rig.fill(pointer, thread, 100, stream), OK);
                    assert_eq!(rig.download(pointer, 100, stream), [thread; 100]);
                    assert_eq!(rig.free(pointer, stream), OK);
                }
            });
        }
    });
    assert!(rig.sim.findings().is_empty());
}

// Handles are numbers here, and the table is shared by all threads.
unsafe impl Sync for Rig {}

struct Gate {
    lock: Mutex<()>,
    entered: mpsc::SyncSender<()>,
    passed: AtomicBool,
}

extern "C" fn passes_gate(gate: *mut c_void) {
    // SAFETY: the test passes a gate that outlives the stream's work.
    let gate = unsafe { &*gate.cast::<Gate>() };
    gate.entered.send(()).ok();
    let _held: Result<MutexGuard<'_, ()>, _> = gate.lock.lock();
    gate.passed.store(true, SeqCst);
}

#[test]
fn a_host_function_may_wait_for_a_lock_whose_holder_calls_the_driver() {
    let rig = Rig::with(Simulator::builder());
    let stream = rig.stream().expose_provenance();
    let (entered, enters) = mpsc::sync_channel(1);
    let gate = Gate { lock: Mutex::new(()), entered, passed: AtomicBool::new(false) };
    let held = gate.lock.lock().unwrap();
    std::thread::scope(|scope| {
        let (rig, gate) = (&rig, &gate);
        let waiter = scope.spawn(move || {
            let stream: CUstream = core::ptr::with_exposed_provenance_mut(stream);
            let data = core::ptr::from_ref(gate).cast_mut().cast();
            assert_eq!(unsafe { (rig.cuda.cuLaunchHostFunc.unwrap())(stream, Some(passes_gate), data) }, OK);
            assert_eq!(rig.sync(stream), OK);
            assert!(gate.passed.load(SeqCst));
        });
        enters.recv().unwrap();
        let second = scope.spawn(move || {
            let stream: CUstream = core::ptr::with_exposed_provenance_mut(stream);
            assert_eq!(rig.sync(stream), OK);
            assert!(gate.passed.load(SeqCst));
        });
        let busy: CUstream = core::ptr::with_exposed_provenance_mut(stream);
        assert_eq!(rig.query(busy), CUresult::CUDA_ERROR_NOT_READY);
        let other = rig.stream();
        assert_eq!(rig.sync(other), OK);
        drop(held);
        waiter.join().unwrap();
        second.join().unwrap();
    });
}
