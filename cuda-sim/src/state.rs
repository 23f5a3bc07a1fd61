//! The state of one simulated driver.

use std::{collections::BTreeMap, sync::Arc};

use cuda_sys::{CUmemAccess_flags, CUresult, Symbol};

use crate::{
    backing::Backing,
    capture::Capture,
    checker::Finding,
    context::Thread,
    device::Device,
    event::Event,
    faults::Faults,
    graph::{Exec, Graph},
    host::HostMemory,
    kernel::Kernel,
    location::Locations,
    log::Log,
    memory::Memory,
    module::{Function, Module},
    options::Builder,
    order::{HostPast, Running},
    pool::Pool,
    pool_space::AddressSpace,
    rng::Rng,
    stream::Stream,
    table::Table,
    work::{Point, Queues},
};

/// What an implementation answers: success, or the code of the failure.
pub(crate) type Answer = Result<(), CUresult>;

/// Everything that a simulated driver knows.
pub(crate) struct State {
    pub(crate) slot: u8,
    /// How often the slot has been given out: handles of an earlier simulator are recognised.
    pub(crate) epoch: u16,
    /// Every call answers that the driver has shut down.
    pub(crate) shut: bool,
    pub(crate) initialised: bool,
    pub(crate) sticky: Option<CUresult>,
    /// The call under way.
    pub(crate) entry: Symbol,
    /// The operation being run, if one is.
    pub(crate) running: Option<Running>,
    /// The call under way is to order nothing.
    pub(crate) ignoring: bool,
    /// A queue has grown too long: to be worked off up to here.
    pub(crate) crowded: Option<Point>,

    pub(crate) options: Builder,
    pub(crate) rng: Rng,
    pub(crate) log: Log,
    pub(crate) faults: Faults,
    pub(crate) findings: Vec<Finding>,
    pub(crate) operations: u64,
    pub(crate) serials: u64,
    pub(crate) streams_made: u64,
    pub(crate) waited: HostPast,
    /// Host functions that have been run.
    pub(crate) callbacks: u64,
    /// Simulated nanoseconds of device work.
    pub(crate) clock: u64,

    pub(crate) devices: Vec<Device>,
    pub(crate) threads: BTreeMap<u64, Thread>,
    pub(crate) queues: Queues,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    /// Records that other processes may wait for, so that they are worked towards although nobody here waits.
    pub(crate) signals: Vec<Point>,
    /// A thread does so.
    pub(crate) signalling: bool,
    pub(crate) pools: Table<Pool>,
    /// What pools that are no more had granted, for the next ones of their numbers.
    pub(crate) stale_access: BTreeMap<u32, BTreeMap<usize, CUmemAccess_flags>>,
    pub(crate) locations: Locations,
    pub(crate) addresses: AddressSpace,
    pub(crate) memory: Memory,
    pub(crate) backing: Backing,
    pub(crate) host: HostMemory,
    pub(crate) captures: Table<Capture>,
    pub(crate) graphs: Table<Graph>,
    pub(crate) execs: Table<Exec>,
    /// Pointers exported so far.
    pub(crate) exports: u64,
    pub(crate) modules: Table<Module>,
    pub(crate) libraries: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) kernels: BTreeMap<String, Arc<Kernel>>,
}

impl State {
    /// A driver that is in nobody's hands: every call answers that it has shut down.
    pub(crate) const fn new() -> Self {
        Self {
            slot: 0,
            epoch: 0,
            shut: true,
            initialised: false,
            sticky: None,
            entry: Symbol::cuInit,
            running: None,
            ignoring: false,
            crowded: None,
            options: Builder::new(),
            rng: Rng::new(0),
            log: Log::new(),
            faults: Faults::new(),
            findings: Vec::new(),
            operations: 0,
            serials: 0,
            streams_made: 0,
            waited: HostPast::new(),
            callbacks: 0,
            clock: 0,
            devices: Vec::new(),
            threads: BTreeMap::new(),
            queues: Queues::new(),
            streams: Table::new(),
            events: Table::new(),
            signals: Vec::new(),
            signalling: false,
            pools: Table::new(),
            stale_access: BTreeMap::new(),
            locations: Locations::new(),
            addresses: AddressSpace::new(),
            memory: Memory::new(),
            backing: Backing::new(),
            host: HostMemory::new(),
            captures: Table::new(),
            graphs: Table::new(),
            execs: Table::new(),
            exports: 0,
            modules: Table::new(),
            libraries: Table::new(),
            functions: Table::new(),
            kernels: BTreeMap::new(),
        }
    }

    /// A fresh driver with these options, in this slot.
    pub(crate) fn open(slot: usize, epoch: u16, options: Builder) -> Self {
        let mut state = Self::new();
        state.slot = slot as u8;
        state.epoch = epoch;
        state.shut = false;
        state.rng = Rng::new(options.seed);
        state.log.recording = options.record_calls;
        state.options = options;
        for ordinal in 0..state.options.devices {
            state.add_device(ordinal);
        }
        state
    }

    /// A number that no other object has or had.
    pub(crate) fn serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }
}
