//! What failed releases leave behind: the whole list, and nothing else.
//!
//! | the call that fails | what stays |
//! | --- | --- |
//! | `cuMemFreeAsync`, `cuMemFree` | the allocation; nothing while a graph is captured, which fails as a whole |
//! | `cuStreamDestroy`, `cuEventDestroy`, `cuMemPoolDestroy`, `cuModuleUnload`, `cuGraphDestroy`, `cuGraphExecDestroy` | the object |
//! | `cuMemFreeHost`, `cuMemHostUnregister` | the page-locked memory, the registration |
//! | `cuDevicePrimaryCtxRelease` | the retain |
//! | `cuCtxPopCurrent` | the context on the thread's stack |
//! | `cuCtxPushCurrent` before a release that needs the context | all that was to be released before the next pop |
//! | `cuThreadExchangeStreamCaptureMode`, the second of a pair | the thread stays in the relaxed capture mode |
//! | `cuEventQuery` of a staging block, with a code that says that all is over | the block: its memory and its event |
//! | any call and all later ones | all that was alive when the first of them failed |
//!
//! A scenario that forgets a loan, or loses the order of a stream, leaves the memory concerned; it says so itself.

use core::fmt;

use cupool_sim::{Live, Symbol};

/// How many of each kind of thing there are that somebody must release.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) retains: i64,
    pub(crate) pushed_contexts: i64,
    pub(crate) streams: i64,
    pub(crate) events: i64,
    pub(crate) pools: i64,
    pub(crate) allocations: i64,
    pub(crate) host_allocations: i64,
    pub(crate) registrations: i64,
    pub(crate) modules: i64,
    pub(crate) graphs: i64,
    pub(crate) graph_execs: i64,
    /// Threads that are left in the relaxed capture mode.
    pub(crate) relaxed: i64,
    /// What this crate never makes.
    pub(crate) others: i64,
}

macro_rules! fields {
    ($apply:ident) => {
        $apply!(
            retains pushed_contexts streams events pools allocations host_allocations registrations modules graphs
            graph_execs relaxed others
        )
    };
}

impl Left {
    pub(crate) const NONE: Self = Self {
        retains: 0,
        pushed_contexts: 0,
        streams: 0,
        events: 0,
        pools: 0,
        allocations: 0,
        host_allocations: 0,
        registrations: 0,
        modules: 0,
        graphs: 0,
        graph_execs: 0,
        relaxed: 0,
        others: 0,
    };

    pub(crate) fn of(live: &Live, relaxed: bool) -> Self {
        Self {
            retains: live.primary_retains as i64,
            pushed_contexts: live.pushed_contexts as i64,
            streams: live.streams as i64,
            events: live.events as i64,
            pools: live.pools as i64,
            allocations: live.allocations as i64,
            host_allocations: live.host_allocations as i64,
            registrations: live.registered_ranges as i64,
            modules: live.modules as i64,
            graphs: live.graphs as i64,
            graph_execs: live.graph_execs as i64,
            relaxed: relaxed.into(),
            others: live.libraries as i64,
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        macro_rules! sum {
            ($($field:ident)*) => { Self { $($field: self.$field + other.$field),* } };
        }
        fields!(sum)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        macro_rules! difference {
            ($($field:ident)*) => { Self { $($field: self.$field - other.$field),* } };
        }
        fields!(difference)
    }

    pub(crate) fn but_pools(self) -> Self {
        Self { pools: 0, ..self }
    }

    /// Whether there is no more of anything than in `most`.
    pub(crate) fn is_within(self, most: Self) -> bool {
        macro_rules! within {
            ($($field:ident)*) => { true $(&& self.$field <= most.$field)* };
        }
        fields!(within)
    }

    /// What one call makes, or releases.
    fn change_by(symbol: Symbol) -> Self {
        let mut change = Self::default();
        match symbol {
            Symbol::cuDevicePrimaryCtxRetain => change.retains = 1,
            Symbol::cuDevicePrimaryCtxRelease => change.retains = -1,
            Symbol::cuCtxPushCurrent => change.pushed_contexts = 1,
            Symbol::cuCtxPopCurrent => change.pushed_contexts = -1,
            Symbol::cuStreamCreateWithPriority => change.streams = 1,
            Symbol::cuStreamDestroy => change.streams = -1,
            Symbol::cuEventCreate | Symbol::cuIpcOpenEventHandle => change.events = 1,
            Symbol::cuEventDestroy => change.events = -1,
            Symbol::cuMemPoolCreate | Symbol::cuMemPoolImportFromShareableHandle => change.pools = 1,
            Symbol::cuMemPoolDestroy => change.pools = -1,
            Symbol::cuMemAllocFromPoolAsync
            | Symbol::cuMemAllocAsync
            | Symbol::cuMemAllocManaged
            | Symbol::cuMemPoolImportPointer => change.allocations = 1,
            Symbol::cuMemFreeAsync | Symbol::cuMemFree => change.allocations = -1,
            Symbol::cuMemHostAlloc => change.host_allocations = 1,
            Symbol::cuMemFreeHost => change.host_allocations = -1,
            Symbol::cuMemHostRegister => change.registrations = 1,
            Symbol::cuMemHostUnregister => change.registrations = -1,
            Symbol::cuModuleLoadData => change.modules = 1,
            Symbol::cuModuleUnload => change.modules = -1,
            Symbol::cuStreamEndCapture => change.graphs = 1,
            Symbol::cuGraphDestroy => change.graphs = -1,
            Symbol::cuGraphInstantiateWithFlags => change.graph_execs = 1,
            Symbol::cuGraphExecDestroy => change.graph_execs = -1,
            _ => {}
        }
        change
    }

    /// What is alive after these calls, all of which succeeded but the `refused`: that occurrence of a symbol.
    pub(crate) fn after(calls: &[Symbol], refused: &[(Symbol, usize)]) -> Self {
        let mut left = Self::default();
        for (at, symbol) in calls.iter().enumerate() {
            let occurrence = calls[..at].iter().filter(|call| *call == symbol).count();
            // What a graph allocates is not there before it is launched.
            let of_graph = matches!(symbol, Symbol::cuMemAllocFromPoolAsync | Symbol::cuMemFreeAsync)
                && is_in_capture(&calls[..at]);
            if !of_graph && !refused.contains(&(*symbol, occurrence)) {
                left = left.plus(Self::change_by(*symbol));
            }
        }
        left.relaxed = i64::from(!is_first_exchange(calls));
        left
    }

    /// What stays if the call after `before` is `failed` and fails alone; `later` are the calls that follow otherwise.
    pub(crate) fn by(before: &[Symbol], failed: Symbol, later: &[Symbol]) -> Self {
        let releases = |symbol: &Symbol| Self::default().minus(Self::change_by(*symbol));
        let none = Self::default();
        match failed {
            Symbol::cuCtxPushCurrent => {
                let skipped = later.iter().take_while(|call| **call != Symbol::cuCtxPopCurrent);
                skipped.map(releases).filter(|left| none.is_within(*left)).fold(none, Self::plus)
            }
            Symbol::cuThreadExchangeStreamCaptureMode => {
                Self { relaxed: i64::from(!is_first_exchange(before)), ..none }
            }
            // The capture fails, and its memory goes with it.
            Symbol::cuMemFreeAsync if is_in_capture(before) => none,
            symbol if none.is_within(releases(&symbol)) => releases(&symbol),
            _ => none,
        }
    }

    /// A block whose event is not known any more.
    pub(crate) fn block(failed: Symbol, code: u32) -> Self {
        let lost = i64::from(failed == Symbol::cuEventQuery && matches!(code, 4 | 709));
        Self { events: lost, host_allocations: lost, ..Self::NONE }
    }
}

/// Only what there is any of.
impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        macro_rules! entries {
            ($($field:ident)*) => {
                $( if self.$field != 0 { map.entry(&format_args!(stringify!($field)), &self.$field); } )*
            };
        }
        fields!(entries);
        map.finish()
    }
}

/// Whether a capture is under way.
fn is_in_capture(before: &[Symbol]) -> bool {
    let count = |symbol| before.iter().filter(|call| **call == symbol).count();
    count(Symbol::cuStreamBeginCapture) > count(Symbol::cuStreamEndCapture)
}

/// Whether the next exchange of the capture mode is the first of a pair.
pub(crate) fn is_first_exchange(before: &[Symbol]) -> bool {
    before.iter().filter(|call| **call == Symbol::cuThreadExchangeStreamCaptureMode).count() % 2 == 0
}
