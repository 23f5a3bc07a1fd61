//! Which allocations of an imported pool are mapped, and by how many buffers.
//!
//! A driver that is asked for one allocation twice gives two addresses, and the first of them that is freed takes the
//! other with it. So each allocation is imported once, however many buffers there are, and freed by the last. This is
//! the book in which they enter and leave; it makes no driver call, and its lock is held for the entry alone. While one
//! thread is in the driver for an allocation, those that want the same one wait, and no others.

use std::collections::BTreeMap;

use cuda_sys::CUdeviceptr_v2;

use crate::{
    Error, Result,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// An allocation: its address in the process that exports it. (What the driver finds it by differs with every export.)
pub(super) type Key = CUdeviceptr_v2;

/// How an allocation stands.
#[derive(Debug)]
enum State {
    /// A thread has the driver import or free it.
    Busy,
    Mapped {
        address: CUdeviceptr_v2,
        buffers: usize,
        /// Some buffer has left, and the pool's own stream waits for what it was used for.
        left: bool,
        /// Some use can be neither ordered nor waited for: it is never freed.
        lost: bool,
    },
    /// Its free is enqueued, and the device may have yet to get there. Until it has, the driver's second mapping of the
    /// allocation could go with the first.
    Freed { ticket: u64 },
    /// Never freed, or who knows.
    Lost,
}

#[derive(Debug)]
struct Entries {
    all: BTreeMap<Key, State>,
    tickets: u64,
}

/// The allocations of one pool.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Mutex<Entries>,
    /// Something is no longer busy.
    changed: Condvar,
}

/// What somebody who wants an allocation finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Mapped(CUdeviceptr_v2),
    /// The caller is to import it, and to say how that went: see [`Registry::imported`].
    Vacant,
    /// It must first be over, which [`Registry::settled`] is told.
    Freed,
}

/// The last buffer leaves. It is to free the memory, and to say how that went: see [`Registry::freed`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// Others left before, and the pool's own stream waits for what they did.
    pub(super) after_others: bool,
}

/// Frees that were enqueued when somebody looked.
#[derive(Debug)]
pub(super) struct Pending(Vec<(Key, u64)>);

impl Pending {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::new(Entries { all: BTreeMap::new(), tickets: 0 }), changed: Condvar::new() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many allocations stand there.
    pub(super) fn len(&self) -> usize {
        self.entries().all.len()
    }

    /// One more buffer wants the allocation.
    pub(super) fn enter(&self, key: &Key) -> Result<Entry> {
        let mut entries = self.entries();
        loop {
            match entries.all.get_mut(key) {
                None => {
                    entries.all.insert(*key, State::Busy);
                    return Ok(Entry::Vacant);
                }
                Some(State::Mapped { lost: true, .. } | State::Lost) => return Err(Error::ImportLost),
                Some(State::Mapped { address, buffers, .. }) => {
                    *buffers += 1;
                    return Ok(Entry::Mapped(*address));
                }
                Some(State::Freed { .. }) => return Ok(Entry::Freed),
                Some(State::Busy) => {}
            }
            entries = self.changed.wait(entries).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A vacant allocation has been imported for one buffer, or has not.
    pub(super) fn imported(&self, key: &Key, address: Option<CUdeviceptr_v2>) {
        let state = address.map(|address| State::Mapped { address, buffers: 1, left: false, lost: false });
        self.set(key, state);
    }

    /// A buffer is about to leave, and has not made anything wait yet; the last need not.
    pub(super) fn leave_if_last(&self, key: &Key) -> Option<Last> {
        match self.entries().all.get_mut(key) {
            Some(state @ State::Mapped { buffers: 1, lost: false, .. }) => Some(last(state)),
            _ => None,
        }
    }

    /// A buffer leaves, and the pool's own stream waits for it. It may have become the last.
    pub(super) fn leave(&self, key: &Key) -> Option<Last> {
        match self.entries().all.get_mut(key) {
            Some(state @ State::Mapped { buffers: 1, lost: false, .. }) => Some(last(state)),
            Some(state @ State::Mapped { buffers: 1, .. }) => {
                *state = State::Lost;
                None
            }
            Some(State::Mapped { buffers, left, .. }) => {
                *buffers -= 1;
                *left = true;
                None
            }
            _ => None,
        }
    }

    /// A buffer leaves, and what it was used for can be neither ordered nor waited for.
    pub(super) fn lose(&self, key: &Key) {
        match self.entries().all.get_mut(key) {
            Some(State::Mapped { buffers, lost, .. }) if *buffers > 1 => {
                *buffers -= 1;
                *lost = true;
            }
            Some(state) => *state = State::Lost,
            None => {}
        }
    }

    /// The last buffer's memory is freed in the order of its home stream, and the pool's own stream waits for that; or
    /// it is not known what became of it.
    pub(super) fn freed(&self, key: &Key, known: bool) {
        let ticket = {
            let mut entries = self.entries();
            entries.tickets += 1;
            entries.tickets
        };
        self.set(key, Some(if known { State::Freed { ticket } } else { State::Lost }));
    }

    /// The frees that may have yet to come.
    pub(super) fn pending(&self) -> Pending {
        let entries = self.entries();
        Pending(
            entries
                .all
                .iter()
                .filter_map(|(key, state)| match state {
                    State::Freed { ticket } => Some((*key, *ticket)),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Whether everything that was imported is freed, or will be when the device gets there.
    pub(super) fn is_empty_but_for_frees(&mut self) -> bool {
        let entries = self.entries.get_mut().unwrap_or_else(PoisonError::into_inner);
        entries.all.values().all(|state| matches!(state, State::Freed { .. }))
    }

    /// These frees have taken place.
    pub(super) fn settled(&self, pending: &Pending) {
        let mut entries = self.entries();
        for (key, seen) in &pending.0 {
            if matches!(entries.all.get(key), Some(State::Freed { ticket }) if ticket == seen) {
                entries.all.remove(key);
            }
        }
    }

    fn set(&self, key: &Key, state: Option<State>) {
        {
            let mut entries = self.entries();
            match state {
                Some(state) => drop(entries.all.insert(*key, state)),
                None => drop(entries.all.remove(key)),
            }
        }
        self.changed.notify_all();
    }
}

/// Nobody else may enter until the memory is freed.
fn last(state: &mut State) -> Last {
    let after_others = matches!(state, State::Mapped { left: true, .. });
    *state = State::Busy;
    Last { after_others }
}

#[cfg(all(test, not(cupool_shuttle)))]
mod tests {
    use super::*;

    const KEY: Key = 1 << 20;

    fn mapped() -> Registry {
        let registry = Registry::new();
        assert_eq!(registry.enter(&KEY), Ok(Entry::Vacant));
        registry.imported(&KEY, Some(512));
        registry
    }

    #[test]
    fn an_only_buffer_frees_and_waits_for_nobody() {
        let registry = mapped();
        assert_eq!(registry.leave_if_last(&KEY), Some(Last { after_others: false }));
        registry.freed(&KEY, true);
        assert_eq!(registry.enter(&KEY), Ok(Entry::Freed));
        registry.settled(&registry.pending());
        assert_eq!(registry.len(), 0);
        assert_eq!(registry.enter(&KEY), Ok(Entry::Vacant));
    }

    #[test]
    fn the_last_of_several_frees_after_the_others() {
        let registry = mapped();
        assert_eq!(registry.enter(&KEY), Ok(Entry::Mapped(512)));
        assert_eq!(registry.leave_if_last(&KEY), None);
        assert_eq!(registry.leave(&KEY), None);
        assert_eq!(registry.leave_if_last(&KEY), Some(Last { after_others: true }));
    }

    #[test]
    fn one_that_saw_another_and_is_the_last_by_then_frees() {
        let registry = mapped();
        registry.enter(&KEY).unwrap();
        assert_eq!((registry.leave_if_last(&KEY), registry.leave_if_last(&KEY)), (None, None));
        assert_eq!(registry.leave(&KEY), None);
        assert_eq!(registry.leave(&KEY), Some(Last { after_others: true }));
    }

    #[test]
    fn what_one_buffer_loses_nobody_frees_or_imports() {
        let registry = mapped();
        registry.enter(&KEY).unwrap();
        registry.lose(&KEY);
        assert_eq!(registry.enter(&KEY), Err(Error::ImportLost));
        assert_eq!((registry.leave_if_last(&KEY), registry.leave(&KEY)), (None, None));
        assert_eq!(registry.enter(&KEY), Err(Error::ImportLost));
        assert!(registry.pending().is_empty());
        assert_eq!(registry.len(), 1);
    }

    #[test]
    fn what_the_last_buffer_loses_is_not_freed_for_those_that_left() {
        let registry = mapped();
        registry.enter(&KEY).unwrap();
        assert_eq!(registry.leave(&KEY), None);
        registry.lose(&KEY);
        assert_eq!(registry.enter(&KEY), Err(Error::ImportLost));
        assert!(registry.pending().is_empty());
    }

    #[test]
    fn an_import_that_fails_leaves_nothing() {
        let registry = Registry::new();
        assert_eq!(registry.enter(&KEY), Ok(Entry::Vacant));
        registry.imported(&KEY, None);
        assert_eq!(registry.len(), 0);
    }

    #[test]
    fn a_free_that_is_over_says_nothing_of_a_later_one() {
        let registry = mapped();
        registry.leave_if_last(&KEY).unwrap();
        registry.freed(&KEY, true);
        let earlier = registry.pending();
        registry.settled(&earlier);
        registry.enter(&KEY).unwrap();
        registry.imported(&KEY, Some(1024));
        registry.leave_if_last(&KEY).unwrap();
        registry.freed(&KEY, true);
        registry.settled(&earlier);
        assert_eq!(registry.enter(&KEY), Ok(Entry::Freed));
    }
}
