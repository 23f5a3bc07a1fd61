//! The orderings that the safe layer makes, each to be left out: then the checker must find what they are for.

use cupool_sim::{CUresult, Simulator, Symbol};

use super::world::World;

/// One ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A copy's fence from the source's home to the target's.
    CopyBefore,
    /// And back.
    CopyAfter,
    /// The same, with the mark left out instead of the wait.
    CopyMark,
    LoanStart,
    LoanEnd,
    SharedLoanStart,
    SharedLoanEnd,
    /// The old home before the new.
    Move,
    /// From the homes of a kernel's arguments to its stream.
    #[cfg(feature = "launch")]
    LaunchBefore,
    /// And back.
    #[cfg(feature = "launch")]
    LaunchAfter,
    /// From a buffer's home to a default stream it is lent to.
    DefaultLoanStart,
    /// And back.
    DefaultLoanEnd,
    /// From the home of captured memory to the stream that launches: the caller's.
    GraphBefore,
    /// And back.
    GraphAfter,
    /// The wait for copies before the host reads pinned memory.
    PinnedRead,
    /// And before it writes it.
    PinnedWrite,
    /// The question whether the device is done with pinned memory before it is used again.
    PinnedReuse,
    /// The wait of a copy for another stream's copy of the same pinned memory.
    PinnedChain,
    /// The wait for the device before a staging block is used again.
    StagingReuse,
    /// The wait for the device before a staging block is emptied.
    StagingFilled,
    /// The mark of what was done with foreign memory that is dropped.
    OwnerMark,
    /// The question whether the device is done with foreign memory before its owner is dropped.
    OwnerQuery,
    /// And the wait for it.
    OwnerWait,
    /// The wait for the device before an owner gets its memory back.
    OwnerBack,
    /// The wait for the device before the host reads managed memory.
    ManagedRead,
    /// And before it writes it.
    ManagedWrite,
    /// The old home of managed memory before the new.
    ManagedMove,
    /// The mark of what was done with managed memory that is dropped.
    ManagedMark,
    /// The question whether the device is done with managed memory before it is used again.
    ManagedReuse,
    /// From the home of a buffer that becomes a tensor to the consumer's stream.
    #[cfg(feature = "dlpack")]
    TensorStart,
    /// And back, when the deleter is called.
    #[cfg(feature = "dlpack")]
    TensorEnd,
    /// The wait for the device there, if the consumer has named no stream.
    #[cfg(feature = "dlpack")]
    TensorEndUnknown,
    /// The question whether the device is done with an imported tensor before its deleter is called.
    #[cfg(feature = "dlpack")]
    TensorDone,
    /// The wait of an imported pool's own stream for an import that others outlive.
    #[cfg(unix)]
    ImportLeaves,
    /// The wait of the last import's home for that stream.
    #[cfg(unix)]
    ImportLast,
    /// The waits for the device before a context frees its pinned memory.
    ContextEnd,
    /// That a free comes after what its stream was given before.
    Free,
    /// That an allocation comes before what its stream is given later.
    Allocation,
}

impl Rule {
    pub(crate) const ALL: &'static [Self] = &[
        Self::CopyBefore,
        Self::CopyAfter,
        Self::CopyMark,
        Self::LoanStart,
        Self::LoanEnd,
        Self::SharedLoanStart,
        Self::SharedLoanEnd,
        Self::Move,
        #[cfg(feature = "launch")]
        Self::LaunchBefore,
        #[cfg(feature = "launch")]
        Self::LaunchAfter,
        Self::DefaultLoanStart,
        Self::DefaultLoanEnd,
        Self::GraphBefore,
        Self::GraphAfter,
        Self::PinnedRead,
        Self::PinnedWrite,
        Self::PinnedReuse,
        Self::PinnedChain,
        Self::StagingReuse,
        Self::StagingFilled,
        Self::OwnerMark,
        Self::OwnerQuery,
        Self::OwnerWait,
        Self::OwnerBack,
        Self::ManagedRead,
        Self::ManagedWrite,
        Self::ManagedMove,
        Self::ManagedMark,
        Self::ManagedReuse,
        #[cfg(feature = "dlpack")]
        Self::TensorStart,
        #[cfg(feature = "dlpack")]
        Self::TensorEnd,
        #[cfg(feature = "dlpack")]
        Self::TensorEndUnknown,
        #[cfg(feature = "dlpack")]
        Self::TensorDone,
        #[cfg(unix)]
        Self::ImportLeaves,
        #[cfg(unix)]
        Self::ImportLast,
        Self::ContextEnd,
        Self::Free,
        Self::Allocation,
    ];

    /// Whether the checker can see what is wrong. The host's reads it cannot: they show in what is read.
    pub(crate) fn is_seen(self) -> bool {
        !matches!(self, Self::PinnedRead | Self::StagingFilled | Self::ManagedRead | Self::ManagedWrite)
    }

    /// The calls that make the ordering, as they come up in the operation it belongs to.
    fn ignore(self, simulator: &Simulator) {
        match self {
            Self::CopyAfter => simulator.ignore(Symbol::cuStreamWaitEvent, 1),
            Self::CopyMark | Self::OwnerMark | Self::ManagedMark => simulator.ignore(Symbol::cuEventRecord, 0),
            Self::PinnedRead | Self::PinnedWrite | Self::StagingFilled | Self::OwnerWait | Self::ContextEnd => {
                simulator.ignore_every(Symbol::cuEventSynchronize);
            }
            Self::PinnedReuse | Self::OwnerQuery | Self::ManagedReuse => simulator.ignore_every(Symbol::cuEventQuery),
            Self::StagingReuse => {
                simulator.ignore_every(Symbol::cuEventQuery);
                simulator.ignore_every(Symbol::cuEventSynchronize);
            }
            #[cfg(feature = "dlpack")]
            Self::TensorDone => simulator.ignore_every(Symbol::cuEventQuery),
            #[cfg(feature = "dlpack")]
            Self::TensorEndUnknown => simulator.ignore_every(Symbol::cuCtxSynchronize),
            Self::OwnerBack | Self::ManagedRead | Self::ManagedWrite => {
                simulator.ignore_every(Symbol::cuStreamSynchronize)
            }
            Self::Free => simulator.ignore(Symbol::cuMemFreeAsync, 0),
            Self::Allocation => simulator.ignore(Symbol::cuMemAllocFromPoolAsync, 0),
            _ => simulator.ignore(Symbol::cuStreamWaitEvent, 0),
        }
    }
}

/// The driver ignores an ordering, or refuses it, for as long as this lives.
pub(crate) struct Ignored<'a>(&'a Simulator);

impl Drop for Ignored<'_> {
    fn drop(&mut self) {
        self.0.clear_faults();
    }
}

/// Leaves an ordering out, if it is the one to be left out.
pub(crate) fn leave_out(simulator: &Simulator, rule: Rule, without: Option<Rule>) -> Option<Ignored<'_>> {
    (without == Some(rule)).then(|| {
        rule.ignore(simulator);
        Ignored(simulator)
    })
}

impl<'g> World<'g> {
    /// Leaves an ordering out, if it is the one to be left out.
    pub(crate) fn leave_out(&self, rule: Rule) -> Option<Ignored<'g>> {
        leave_out(&self.ground.simulator, rule, self.without)
    }

    /// Once in a while has one of the calls fail that end foreign work: the host waits in its place, and nobody should
    /// notice. Each is given with how many calls of that kind come before it.
    pub(crate) fn hinder(&mut self, calls: [(Symbol, u64); 2]) -> Option<Ignored<'g>> {
        if self.without.is_some() || !self.choices.once_in(15) {
            return None;
        }
        let (symbol, nth) = calls[self.choices.below(2)];
        let simulator = &self.ground.simulator;
        simulator.fail(symbol, nth, CUresult::CUDA_ERROR_UNKNOWN);
        Some(Ignored(simulator))
    }

    /// Leaves out `count` waits, after so many others.
    #[cfg(feature = "launch")]
    pub(crate) fn leave_out_from(&self, rule: Rule, first: usize, count: usize) -> Option<Ignored<'g>> {
        let simulator = &self.ground.simulator;
        (self.without == Some(rule)).then(|| {
            for at in first..first + count {
                simulator.ignore(Symbol::cuStreamWaitEvent, at as u64);
            }
            Ignored(simulator)
        })
    }
}
