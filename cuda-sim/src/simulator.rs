//! The handle of a simulated driver.

use core::fmt;
use std::sync::{Arc, OnceLock, atomic::Ordering::Relaxed};

use cuda_sys::{CUresult, Functions, Symbol};
use parking_lot::MutexGuard;

use crate::{
    checker::Finding,
    faults::{Fault, Which},
    kernel::{Kernel, KernelAccess},
    log::Logged,
    memory::{Allocation, Home},
    options::Builder,
    slots::{self, SHARED, Slot},
    state::State,
};

/// A simulated driver of its own. Dropping it ends the driver: whatever lives in it is gone, and every later call
/// answers `CUDA_ERROR_DEINITIALIZED`.
pub struct Simulator {
    number: usize,
    functions: &'static Functions,
}

/// What is alive in a simulated driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Primary contexts that are active.
    pub contexts: usize,
    /// Retains of primary contexts that have not been released, over all devices.
    pub primary_retains: u64,
    /// Entries on the context stacks of all threads.
    pub pushed_contexts: usize,
    /// Streams that were created and not destroyed.
    pub streams: usize,
    /// Events that were created or opened and not destroyed.
    pub events: usize,
    /// Pools that were created or imported and not destroyed.
    pub pools: usize,
    /// Allocations of device and managed memory that have not been freed.
    pub allocations: usize,
    /// The bytes that were asked for with them.
    pub allocated_bytes: u64,
    /// Physical memory in use: what pools reserve, and what was allocated outside them.
    pub reserved_bytes: u64,
    /// Virtual addresses that pools reserve: twice the device's memory for each pool without a maximum size.
    pub address_space: u64,
    /// Pinned host allocations that have not been freed.
    pub host_allocations: usize,
    /// Ranges of host memory that are registered.
    pub registered_ranges: usize,
    /// Modules that are loaded.
    pub modules: usize,
    /// Libraries that are loaded.
    pub libraries: usize,
    /// Graphs that have not been destroyed.
    pub graphs: usize,
    /// Executable graphs that have not been destroyed.
    pub graph_execs: usize,
    /// Operations that were enqueued and have not run.
    pub pending_operations: usize,
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator").field("slot", &self.number).finish_non_exhaustive()
    }
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulator {
    /// Starts a driver with the default options; waits for an earlier simulator to end if 32 exist.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Builder::new())
    }

    /// Options for a driver.
    pub const fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn with(options: Builder) -> Self {
        Self::open(slots::acquire(), options)
    }

    fn open(number: usize, options: Builder) -> Self {
        let version = options.driver_version;
        let (slot, functions) = slots::slot(number)
            .and_then(|slot| Some((slot, slot.functions(number, version)?)))
            .unwrap_or_else(|| unreachable!("slots are numbered below their count"));
        slot.reset_counts();
        slot.process.store(0, Relaxed);
        let mut state = slot.state.lock();
        let epoch = state.epoch.wrapping_add(1);
        *state = State::open(number, epoch, options);
        Self { number, functions }
    }

    fn slot(&self) -> &'static Slot {
        slots::slot(self.number).unwrap_or_else(|| unreachable!("slots are numbered below their count"))
    }

    fn state(&self) -> MutexGuard<'static, State> {
        self.slot().state.lock()
    }

    /// The driver's entry points. The table lives for ever, the driver behind it as long as the simulator.
    #[must_use]
    pub const fn functions(&self) -> &'static Functions {
        self.functions
    }

    /// Makes one call of `symbol` answer `code` without doing anything: the next one, after `nth` others.
    pub fn fail(&self, symbol: Symbol, nth: u64, code: CUresult) {
        self.state().faults.add(Which::After(symbol, nth), Fault::Fail(code));
    }

    /// Makes the call of that index fail; the first call has index 0, and [`call_count`](Self::call_count) is the
    /// index of the next one.
    pub fn fail_call(&self, index: u64, code: CUresult) {
        self.state().faults.add(Which::Index(index), Fault::Fail(code));
    }

    /// Makes the call of that index and all later ones fail.
    pub fn fail_from(&self, index: u64, code: CUresult) {
        self.state().faults.add(Which::From(index), Fault::Fail(code));
    }

    /// Makes every call of `symbol` fail.
    pub fn fail_every(&self, symbol: Symbol, code: CUresult) {
        self.state().faults.add(Which::Every(symbol), Fault::Fail(code));
    }

    /// Makes one call of `symbol` answer success and order nothing: the next one, after `nth` others. With that a test
    /// can show that it would notice if the call were not made.
    ///
    /// A wait, a synchronisation or the recording of an event then has no effect, a query is answered as if all were
    /// done, and a stream-ordered allocation or free takes place outside its stream's order. An attribute of a pool that is
    /// set stays as it is. Other entry points do what they always do.
    pub fn ignore(&self, symbol: Symbol, nth: u64) {
        self.state().faults.add(Which::After(symbol, nth), Fault::Ignore);
    }

    /// Makes every call of `symbol` order nothing; see [`ignore`](Self::ignore).
    pub fn ignore_every(&self, symbol: Symbol) {
        self.state().faults.add(Which::Every(symbol), Fault::Ignore);
    }

    /// Makes no further call fail or be ignored.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// The calls so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Symbol> {
        self.state().log.calls.iter().map(|call| call.symbol).collect()
    }

    /// How often `symbol` has been called.
    #[must_use]
    pub fn count(&self, symbol: Symbol) -> u64 {
        self.slot().count(symbol)
    }

    /// How many calls there have been.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.slot().total()
    }

    /// Starts counting calls anew; indices of calls start at 0 again.
    pub fn reset_log(&self) {
        self.slot().reset_counts();
        self.state().log.calls.clear();
    }

    /// Starts the log anew, though it may not have been kept so far.
    pub(crate) fn start_log(&self) {
        self.reset_log();
        self.state().log.recording = true;
    }

    /// The calls so far, and who made them.
    pub(crate) fn logged(&self) -> Vec<Logged> {
        self.state().log.calls.clone()
    }

    /// The version that the driver has.
    pub(crate) fn driver_version(&self) -> u32 {
        self.state().options.driver_version
    }

    /// The misuses so far.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.state().findings.clone()
    }

    /// Takes the misuses so far out of the report.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        core::mem::take(&mut self.state().findings)
    }

    /// What is alive.
    #[must_use]
    pub fn live(&self) -> Live {
        self.state().live()
    }

    /// From now on every call answers `CUDA_ERROR_DEINITIALIZED`, as after the process's exit handlers.
    pub fn shut_down(&self) {
        self.state().shut = true;
    }

    /// Resets the device's primary context, as somebody else's `cuDevicePrimaryCtxReset` does.
    pub fn reset_device(&self, ordinal: usize) {
        self.state().reset_context(ordinal);
    }

    /// From now on every call answers `code`, as after a fault of the device.
    pub fn inject_sticky(&self, code: CUresult) {
        self.state().sticky = Some(code);
    }

    /// Makes a kernel known by name, so that modules and libraries have it. `parameters` are the sizes of its
    /// parameters in bytes, `body` does its work when the launch runs. If it panics, the launch has failed, and every
    /// later call answers `CUDA_ERROR_LAUNCH_FAILED`.
    pub fn register_kernel(
        &self,
        name: &str,
        parameters: &[usize],
        body: impl Fn(&mut KernelAccess<'_>) + Send + Sync + 'static,
    ) {
        let kernel = Kernel { parameters: parameters.to_vec(), body: Box::new(body) };
        self.state().kernels.insert(name.to_owned(), Arc::new(kernel));
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        {
            let mut state = self.state();
            let epoch = state.epoch;
            if state.pools.iter().any(|(_, pool)| pool.is_users()) {
                self.slot().give_up_tables();
            }
            *state = State::new();
            state.epoch = epoch;
        }
        slots::release(self.number);
    }
}

impl State {
    fn live(&self) -> Live {
        let mut live = Live {
            pushed_contexts: self.threads.values().map(|thread| thread.contexts.len()).sum(),
            streams: self.streams.iter().filter(|(_, stream)| self.is_alive(stream.context)).count(),
            events: self.events.iter().filter(|(_, event)| self.is_alive(event.context)).count(),
            host_allocations: self.host.count(true),
            registered_ranges: self.host.count(false),
            modules: self.modules.iter().count(),
            libraries: self.libraries.iter().count(),
            graphs: self.graphs.iter().count(),
            graph_execs: self.execs.iter().count(),
            pending_operations: self.queues.pending(),
            ..Live::default()
        };
        for device in &self.devices {
            live.contexts += usize::from(device.active);
            live.primary_retains += device.retains;
            live.reserved_bytes += device.reserved;
        }
        for (_, pool) in self.pools.iter() {
            live.address_space += pool.visible_address_space();
            live.pools += usize::from(pool.is_users());
        }
        // A graph's memory is not allocated before a launch has been.
        let is_there = |allocation: &&Allocation| allocation.home != Home::Graph || allocation.ready;
        for allocation in self.memory.live().filter(is_there) {
            live.allocations += 1;
            live.allocated_bytes += allocation.bytes;
        }
        live
    }
}

/// The driver that lives as long as the process.
pub(crate) fn shared() -> &'static Simulator {
    static DRIVER: OnceLock<Simulator> = OnceLock::new();
    DRIVER.get_or_init(|| Simulator::open(SHARED, Builder::new().record_calls(false)))
}

/// The entry points of a driver that lives as long as the process and is shared by all who ask.
#[must_use]
pub fn functions() -> &'static Functions {
    shared().functions()
}
