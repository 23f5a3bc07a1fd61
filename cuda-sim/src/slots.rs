//! Where simulators live: a fixed number of slots, each with its own entry points, and the way into a call.

use core::{
    cell::Cell,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use cuda_sys::{CUresult, Functions, Symbol};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    checker::Misuse,
    entry,
    faults::{self, Fault},
    scheduler,
    state::{Answer, State},
};

/// Slots for [`Simulator`](crate::Simulator)s; one more belongs to the process.
pub(crate) const SHARED: usize = 32;
const SYMBOLS: usize = Symbol::ALL.len();

/// A call under way: the slot's state, locked. The lock is lent back while a host function runs.
pub(crate) type Call = MutexGuard<'static, State>;

/// One simulated driver's place.
pub(crate) struct Slot {
    pub(crate) state: Mutex<State>,
    /// Signalled when a host function has returned.
    pub(crate) progress: Condvar,
    counts: [AtomicU64; SYMBOLS],
    total: AtomicU64,
    /// The process that initialised the driver, or 0.
    pub(crate) process: AtomicU32,
    tables: Mutex<Vec<(u32, &'static Functions)>>,
}

static SLOTS: [Slot; SHARED + 1] = [const { Slot::new() }; SHARED + 1];
static FREE: Mutex<u32> = Mutex::new(u32::MAX);
static RETURNED: Condvar = Condvar::new();

impl Slot {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State::new()),
            progress: Condvar::new(),
            counts: [const { AtomicU64::new(0) }; SYMBOLS],
            total: AtomicU64::new(0),
            process: AtomicU32::new(0),
            tables: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn count(&self, symbol: Symbol) -> u64 {
        self.counts.get(symbol as usize).map_or(0, |count| count.load(Relaxed))
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    pub(crate) fn reset_counts(&self) {
        self.total.store(0, Relaxed);
        for count in &self.counts {
            count.store(0, Relaxed);
        }
    }

    /// Counts a call and answers its index.
    fn note(&self, symbol: Symbol) -> u64 {
        if let Some(count) = self.counts.get(symbol as usize) {
            count.fetch_add(1, Relaxed);
        }
        self.total.fetch_add(1, Relaxed)
    }

    /// The table that a driver of `version` in this slot fills; made once.
    pub(crate) fn functions(&self, slot: usize, version: u32) -> Option<&'static Functions> {
        let mut tables = self.tables.lock();
        if let Some((_, table)) = tables.iter().find(|(of, _)| *of == version) {
            return Some(table);
        }
        let table: &'static Functions = Box::leak(Box::new(entry::functions(slot, version)?));
        tables.push((version, table));
        Some(table)
    }

    /// Gives the next simulator here tables of its own: whoever still has objects of this one must not take it for theirs.
    pub(crate) fn give_up_tables(&self) {
        self.tables.lock().clear();
    }
}

/// The slot of that number.
pub(crate) fn slot(number: usize) -> Option<&'static Slot> {
    SLOTS.get(number)
}

/// Takes a free slot; waits for one if all are in use.
pub(crate) fn acquire() -> usize {
    let mut free = FREE.lock();
    while *free == 0 {
        RETURNED.wait(&mut free);
    }
    let number = free.trailing_zeros();
    *free &= !(1 << number);
    number as usize
}

/// Gives a slot back.
pub(crate) fn release(number: usize) {
    *FREE.lock() |= 1 << number;
    RETURNED.notify_one();
}

/// What a thread is doing for a simulator, if anything: driver calls are not permitted meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callback {
    None,
    HostFunction,
    Kernel,
}

thread_local! {
    static CALLBACK: Cell<Callback> = const { Cell::new(Callback::None) };
    static THREAD: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    };
}

/// Runs `callback` with the thread marked.
pub(crate) fn in_callback<R>(kind: Callback, callback: impl FnOnce() -> R) -> R {
    struct Restore(Callback);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = CALLBACK.try_with(|current| current.set(self.0));
        }
    }
    let _restore = Restore(CALLBACK.try_with(|current| current.replace(kind)).unwrap_or(Callback::None));
    callback()
}

/// A number for the calling thread, unique in the process; 0 while its thread-locals are being destroyed.
pub(crate) fn thread() -> u64 {
    THREAD.try_with(|thread| *thread).unwrap_or(0)
}

/// Lets a call in: counts it, and answers the code if it must not go ahead.
pub(crate) fn admit(number: usize, symbol: Symbol) -> Result<Call, CUresult> {
    let slot = slot(number).ok_or(CUresult::CUDA_ERROR_UNKNOWN)?;
    let index = slot.note(symbol);
    let callback = CALLBACK.try_with(Cell::get).unwrap_or(Callback::None);
    if callback == Callback::Kernel {
        return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
    }
    let process = slot.process.load(Relaxed);
    if process != 0 && process != std::process::id() {
        return Err(after_fork(slot, symbol));
    }
    let mut state = slot.state.lock();
    if state.shut {
        return Err(CUresult::CUDA_ERROR_DEINITIALIZED);
    }
    state.log.push(symbol, thread());
    state.entry = symbol;
    state.ignoring = match state.faults.check(symbol, index) {
        Some(Fault::Fail(code)) => return Err(code),
        fault => fault.is_some(),
    };
    if callback == Callback::HostFunction {
        state.found(Misuse::CallInHostFunction, 0, 0, None);
        return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
    }
    let pure = matches!(symbol, Symbol::cuGetErrorName | Symbol::cuGetErrorString | Symbol::cuDriverGetVersion);
    if let (Some(code), false) = (state.sticky, pure) {
        return Err(code);
    }
    if !state.initialised && !pure && symbol != Symbol::cuInit {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    if state.ignoring && faults::only_orders(symbol) {
        return Err(CUresult::CUDA_SUCCESS);
    }
    Ok(state)
}

/// After the call: a queue that has grown too long is worked off first, as the driver's is.
pub(crate) fn settle(call: &mut Call) -> Answer {
    match call.crowded.take() {
        Some(point) => scheduler::wait(call, point),
        None => Ok(()),
    }
}

/// What the child of a fork gets. Some calls only keep books on the host, and seem to work.
fn after_fork(slot: &Slot, symbol: Symbol) -> CUresult {
    // The lock may have been held by a thread that does not exist here.
    if let Some(mut state) = slot.state.try_lock() {
        state.log.push(symbol, thread());
    }
    match symbol {
        Symbol::cuMemAllocFromPoolAsync => CUresult::CUDA_SUCCESS,
        _ => CUresult::CUDA_ERROR_NOT_INITIALIZED,
    }
}
