//! What a test starts from: a driver, and at its end the proof that nothing was left behind.

use std::{
    sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread,
};

use cupool::{Context, Device, Driver, MemPool, MemPoolProperties, Stream};
use cupool_sim::{Builder, Live, Simulator, Symbol};

use crate::crash;

/// The size limit of a fixture's pools: a pool without one reserves addresses for twice the device's memory.
pub(crate) const POOL_SIZE: usize = 64 << 20;

/// A driver to test with. If it is a simulated one it belongs to the test alone, and when the fixture is dropped it
/// must have found no misuse and hold nothing.
pub(crate) struct Fixture {
    driver: Driver,
    simulator: Option<Simulator>,
    checked: bool,
    alone: bool,
    _device: Option<Turn>,
}

/// Tests share the real device, but for those that would hold the others up, or be disturbed by them.
static DEVICE: RwLock<()> = RwLock::new(());

/// Kept for as long as a test uses the real device.
enum Turn {
    Shared(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>),
}

impl Fixture {
    /// The real driver if `CUPOOL_TEST_DRIVER` is `real`, else a simulated one.
    pub(crate) fn new() -> Self {
        Self::in_turn(false)
    }

    /// The same, for a test that holds up a stream, captures one, or counts what a pool holds: a real driver has calls
    /// that wait for every stream, calls that a capture anywhere in the process refuses, and takes free memory from
    /// all pools when any of them runs out.
    pub(crate) fn alone() -> Self {
        Self::in_turn(true)
    }

    fn in_turn(alone: bool) -> Self {
        match std::env::var("CUPOOL_TEST_DRIVER") {
            Ok(which) if which == "real" => {
                let turn = if alone {
                    Turn::Alone(DEVICE.write().unwrap_or_else(PoisonError::into_inner))
                } else {
                    Turn::Shared(DEVICE.read().unwrap_or_else(PoisonError::into_inner))
                };
                crash::announce();
                let driver = Driver::load().unwrap();
                // Making a context takes longer than most tests.
                static KEPT: OnceLock<Context> = OnceLock::new();
                KEPT.get_or_init(|| driver.device(0).unwrap().primary_context().unwrap());
                Self { driver, simulator: None, checked: false, alone, _device: Some(turn) }
            }
            Ok(other) => panic!("CUPOOL_TEST_DRIVER is {other:?}; set it to \"real\", or not at all"),
            Err(_) => Self::simulated_in(alone),
        }
    }

    fn simulated_in(alone: bool) -> Self {
        let mut fixture = Self::simulated();
        fixture.alone = alone;
        fixture
    }

    /// A simulated driver, also on a machine with a real one.
    pub(crate) fn simulated() -> Self {
        Self::with(Simulator::builder())
    }

    /// A simulated driver with these options.
    pub(crate) fn with(options: Builder) -> Self {
        let simulator = options.build();
        // SAFETY: every entry behaves as the driver's, and answers that the driver has shut down once the simulator
        // is dropped.
        let driver = unsafe { Driver::from_functions(simulator.functions()) };
        Self { driver, simulator: Some(simulator), checked: true, alone: true, _device: None }
    }

    /// The same, for a test that leaves something behind on purpose and looks at it itself.
    pub(crate) fn unchecked() -> Self {
        let mut fixture = Self::simulated();
        fixture.checked = false;
        fixture
    }

    pub(crate) fn driver(&self) -> Driver {
        self.driver
    }

    /// Whether no other test uses the device.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// The simulated driver, if it is one.
    pub(crate) fn simulator(&self) -> Option<&Simulator> {
        self.simulator.as_ref()
    }

    /// The simulated driver; only for tests that ask for one.
    pub(crate) fn sim(&self) -> &Simulator {
        self.simulator.as_ref().expect("the test needs a simulated driver, and must ask for one")
    }

    /// No misuse was found so far.
    #[track_caller]
    pub(crate) fn assert_no_findings(&self) {
        assert_no_findings(self.sim());
    }

    /// Work on the stream is not done, although the driver was asked to do it. (The simulated driver does work when it
    /// is asked about a stream, so it is asked whether any is left at all.)
    #[track_caller]
    pub(crate) fn assert_pending(&self, stream: &Stream) {
        match &self.simulator {
            Some(simulator) => assert!(simulator.live().pending_operations > 0, "no work is left"),
            None => assert_eq!(stream.query(), Ok(false)),
        }
    }

    pub(crate) fn device(&self) -> Device {
        self.driver.device(0).unwrap()
    }

    pub(crate) fn context(&self) -> Context {
        self.device().primary_context().unwrap()
    }

    /// A stream, which keeps its context itself.
    pub(crate) fn stream(&self) -> Stream {
        Stream::new(&self.context()).unwrap()
    }

    pub(crate) fn shared_stream(&self) -> Arc<Stream> {
        Arc::new(self.stream())
    }

    /// A pool that keeps its memory, with a size limit.
    pub(crate) fn pool(&self) -> MemPool {
        self.pool_with(MemPoolProperties::default())
    }

    pub(crate) fn pool_with(&self, properties: MemPoolProperties) -> MemPool {
        MemPool::with_properties(&self.device(), &properties.max_size(POOL_SIZE)).unwrap()
    }

    /// Runs `work` and says which driver calls it made.
    pub(crate) fn calls_of<R>(&self, work: impl FnOnce() -> R) -> (R, Vec<Symbol>) {
        let before = self.sim().calls().len();
        let result = work();
        (result, self.sim().calls().split_off(before))
    }

    /// Runs `work`, which must call the driver exactly so.
    #[track_caller]
    pub(crate) fn expect_calls<R>(&self, expected: &[Symbol], work: impl FnOnce() -> R) -> R {
        let (result, calls) = self.calls_of(work);
        assert_eq!(calls, expected);
        result
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if thread::panicking() || !self.checked {
            return;
        }
        if let Some(simulator) = &self.simulator {
            assert_eq!(MemPool::destroy_dropped(self.driver), Ok(0), "pools still hold memory");
            assert_clean(simulator);
        }
    }
}

/// No misuse was found, and nothing is alive.
#[track_caller]
pub(crate) fn assert_clean(simulator: &Simulator) {
    assert_no_findings(simulator);
    assert_eq!(owned(&simulator.live()), Owned::default());
}

#[track_caller]
pub(crate) fn assert_no_findings(simulator: &Simulator) {
    let findings: Vec<String> = simulator.findings().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// How many of each kind of object exist that somebody must release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) retains: u64,
    pub(crate) pushed_contexts: usize,
    pub(crate) streams: usize,
    pub(crate) events: usize,
    pub(crate) pools: usize,
    pub(crate) allocations: usize,
    pub(crate) host_allocations: usize,
    pub(crate) others: usize,
}

pub(crate) fn owned(live: &Live) -> Owned {
    Owned {
        retains: live.primary_retains,
        pushed_contexts: live.pushed_contexts,
        streams: live.streams,
        events: live.events,
        pools: live.pools,
        allocations: live.allocations,
        host_allocations: live.host_allocations,
        others: live.registered_ranges + live.modules + live.libraries + live.graphs + live.graph_execs,
    }
}
