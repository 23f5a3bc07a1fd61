//! The address space of a pool: which of it is mapped, and which of that is free from when on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    memory::{DEVICE_BASE, STEP},
    past::Past,
    work::{Point, QueueId, Queues},
};

/// Pools map memory in units of this many bytes.
const UNIT: u64 = 32 << 20;
/// Pools whose maximum size is no multiple of that map in smaller units.
const SMALL_UNIT: u64 = 2 << 20;

/// Hands out device addresses to pools.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    next: u64,
    free: Vec<(u64, u64)>,
}

impl AddressSpace {
    pub(crate) const fn new() -> Self {
        Self { next: DEVICE_BASE, free: Vec::new() }
    }

    fn take(&mut self, bytes: u64) -> u64 {
        if let Some(at) = self.free.iter().rposition(|(_, free)| *free == bytes) {
            return self.free.swap_remove(at).0;
        }
        let base = self.next;
        self.next += bytes + UNIT;
        base
    }

    /// Addresses for another name of existing memory; never used again.
    pub(crate) const fn name(&mut self, bytes: u64) -> u64 {
        let base = self.next;
        self.next += bytes.next_multiple_of(SMALL_UNIT) + SMALL_UNIT;
        base
    }

    fn give(&mut self, base: u64, bytes: u64) {
        self.free.push((base, bytes));
    }
}

/// Mapped memory that is free once the point is reached.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    after: Option<Point>,
}

/// The address space of one pool.
#[derive(Debug)]
pub(crate) struct Space {
    base: u64,
    pub(crate) bytes: u64,
    unit: u64,
    /// What may be mapped at most.
    pub(crate) limit: u64,
    mapped: BTreeSet<u64>,
    free: BTreeMap<u64, Block>,
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
}

/// Who wants memory.
#[derive(Clone, Copy)]
pub(crate) struct Taker<'a> {
    pub(crate) queue: Option<QueueId>,
    /// What comes before its next work, if the pool follows the dependencies that events make.
    pub(crate) past: Option<&'a Past>,
}

/// Nobody: only what is idle will do.
const NOBODY: Taker<'_> = Taker { queue: None, past: None };

impl Block {
    /// Whether the taker may use it now: it is idle, or its free comes before whatever the taker does next.
    fn usable(&self, taker: Taker<'_>, queues: &Queues) -> bool {
        self.after.is_none_or(|point| {
            taker.queue == Some(point.queue) || taker.past.is_some_and(|past| past.covers(point)) || queues.done(point)
        })
    }

    fn idle(&self, queues: &Queues) -> bool {
        self.after.is_none_or(|point| queues.done(point))
    }
}

/// The later of two points, where one of them says it all: those of different queues are not to be compared.
fn later(a: Option<Point>, b: Option<Point>) -> Option<Option<Point>> {
    match (a, b) {
        (Some(a), Some(b)) if a.queue != b.queue => None,
        (Some(a), Some(b)) if a.count < b.count => Some(Some(b)),
        (Some(a), _) => Some(Some(a)),
        (None, b) => Some(b),
    }
}

impl Space {
    /// Address space for a pool of `max` bytes, or twice the device's memory if it has no maximum.
    pub(crate) fn new(addresses: &mut AddressSpace, max: Option<u64>, device_memory: u64) -> Self {
        let unit = match max {
            Some(max) if !max.is_multiple_of(UNIT) => SMALL_UNIT,
            _ => UNIT,
        };
        let limit = max.unwrap_or(device_memory).next_multiple_of(unit);
        let bytes = max.map_or(2 * device_memory, |_| limit).next_multiple_of(unit);
        Self {
            base: addresses.take(bytes),
            bytes,
            unit,
            limit,
            mapped: BTreeSet::new(),
            free: BTreeMap::new(),
            reserved: 0,
            reserved_high: 0,
        }
    }

    /// The first address.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// Gives the address space back; nothing may be mapped.
    pub(crate) fn end(self, addresses: &mut AddressSpace) {
        addresses.give(self.base, self.bytes);
    }

    /// Takes `span` bytes that the taker may use at once.
    pub(crate) fn take(&mut self, span: u64, taker: Taker<'_>, queues: &Queues) -> Option<u64> {
        let fits = |block: &Block| block.bytes >= span && block.usable(taker, queues);
        let mut found = self.free.iter().find(|(_, block)| fits(block)).map(|(start, block)| (*start, *block));
        if found.is_none() && self.merge(taker, queues) {
            found = self.free.iter().find(|(_, block)| fits(block)).map(|(start, block)| (*start, *block));
        }
        let (start, block) = found?;
        self.split(start, block, span);
        Some(start)
    }

    /// Takes `span` bytes that were freed on other streams: usable after the point that is answered too.
    pub(crate) fn take_after(&mut self, span: u64) -> Option<(u64, Option<Point>)> {
        let (start, block) =
            self.free.iter().find(|(_, block)| block.bytes >= span).map(|(start, block)| (*start, *block))?;
        self.split(start, block, span);
        Some((start, block.after))
    }

    fn split(&mut self, start: u64, block: Block, span: u64) {
        self.free.remove(&start);
        if block.bytes > span {
            self.free.insert(start + span, Block { bytes: block.bytes - span, after: block.after });
        }
    }

    /// Takes back what was taken: free once the point is reached, or now.
    pub(crate) fn give(&mut self, address: u64, span: u64, after: Option<Point>) {
        self.free.insert(address, Block { bytes: span, after });
    }

    /// Joins neighbours that the taker may use; says whether there were any.
    fn merge(&mut self, taker: Taker<'_>, queues: &Queues) -> bool {
        let mut merged = false;
        let mut last: Option<(u64, Block)> = None;
        let starts: Vec<u64> = self.free.keys().copied().collect();
        for start in starts {
            let Some(mut block) = self.free.get(&start).copied() else { continue };
            if !block.usable(taker, queues) {
                last = None;
                continue;
            }
            if block.idle(queues) {
                block.after = None;
            }
            if let Some((before, previous)) = last
                && before + previous.bytes == start
                && let Some(after) = later(previous.after, block.after)
            {
                self.free.remove(&start);
                block = Block { bytes: previous.bytes + block.bytes, after };
                merged = true;
                last = Some((before, block));
            } else {
                last = Some((start, block));
            }
            if let Some((at, block)) = last {
                self.free.insert(at, block);
            }
        }
        merged
    }

    /// Maps enough for `span` bytes, if no more than `room` is needed; answers how much that was.
    pub(crate) fn grow(&mut self, span: u64, taker: Taker<'_>, queues: &Queues, room: u64) -> Option<u64> {
        let top = self.mapped.last().map_or(self.base, |unit| unit + self.unit);
        // What is free at the top of the mapped part counts towards the span.
        let tail = self
            .free
            .last_key_value()
            .filter(|(start, block)| **start + block.bytes == top && block.usable(taker, queues))
            .map_or(0, |(_, block)| block.bytes);
        let need = (span - tail.min(span)).next_multiple_of(self.unit);
        if need <= self.allowed(room) && top + need <= self.base + self.bytes {
            return Some(self.map(top, need));
        }
        let need = span.next_multiple_of(self.unit);
        if need > self.allowed(room) {
            return None;
        }
        let gap = self.gap(need)?;
        Some(self.map(gap, need))
    }

    const fn allowed(&self, room: u64) -> u64 {
        let left = self.limit.saturating_sub(self.reserved);
        if left < room { left } else { room }
    }

    /// The lowest run of unmapped units that long.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let mut start = self.base;
        for unit in &self.mapped {
            if unit - start >= bytes {
                return Some(start);
            }
            start = unit + self.unit;
        }
        (self.base + self.bytes - start >= bytes).then_some(start)
    }

    fn map(&mut self, start: u64, bytes: u64) -> u64 {
        let mut unit = start;
        while unit < start + bytes {
            self.mapped.insert(unit);
            unit += self.unit;
        }
        if bytes > 0 {
            self.free.insert(start, Block { bytes, after: None });
        }
        self.reserved += bytes;
        self.reserved_high = self.reserved_high.max(self.reserved);
        bytes
    }

    /// Unmaps what is idle, as long as `keep` bytes stay mapped; answers how much that was.
    pub(crate) fn shrink(&mut self, keep: u64, queues: &Queues) -> u64 {
        if self.reserved < keep.saturating_add(self.unit) {
            return 0;
        }
        self.merge(NOBODY, queues);
        let mut unmapped = 0;
        let units: Vec<u64> = self.mapped.iter().rev().copied().collect();
        for unit in units {
            if self.reserved < keep.saturating_add(self.unit) {
                break;
            }
            let end = unit + self.unit;
            let Some((start, block)) = self.free.range(..=unit).next_back().map(|(start, block)| (*start, *block))
            else {
                continue;
            };
            if start + block.bytes < end || !block.idle(queues) {
                continue;
            }
            self.free.remove(&start);
            if start < unit {
                self.free.insert(start, Block { bytes: unit - start, after: None });
            }
            if end < start + block.bytes {
                self.free.insert(end, Block { bytes: start + block.bytes - end, after: None });
            }
            self.mapped.remove(&unit);
            self.reserved -= self.unit;
            unmapped += self.unit;
        }
        unmapped
    }

    /// Unmaps everything, in use or not; answers how much that was.
    pub(crate) fn clear(&mut self) -> u64 {
        self.mapped.clear();
        self.free.clear();
        core::mem::take(&mut self.reserved)
    }

    /// The bytes that an allocation of that many takes; `None` if no device has as many.
    pub(crate) const fn span(bytes: u64) -> Option<u64> {
        if bytes > 1 << 45 { None } else { Some(bytes.next_multiple_of(STEP)) }
    }
}

/// What a pool of host memory holds. Where it lies is not modelled: each allocation has a block of its own.
#[derive(Debug, Default)]
pub(crate) struct HostSpace {
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
    free: Vec<Block>,
}

impl HostSpace {
    /// Takes `span` bytes: what is free and usable at once, and for the rest as much more as the limit allows.
    pub(crate) fn take(&mut self, span: u64, taker: Taker<'_>, queues: &Queues, limit: u64) -> bool {
        let usable: u64 = self.free.iter().filter(|block| block.usable(taker, queues)).map(|block| block.bytes).sum();
        let more = span.saturating_sub(usable);
        if more > limit.saturating_sub(self.reserved) {
            return false;
        }
        let mut left = span - more;
        self.free.retain_mut(|block| {
            if block.usable(taker, queues) {
                let taken = left.min(block.bytes);
                block.bytes -= taken;
                left -= taken;
            }
            block.bytes > 0
        });
        self.reserved += more;
        self.reserved_high = self.reserved_high.max(self.reserved);
        true
    }

    /// Takes back what was taken: free once the point is reached, or now.
    pub(crate) fn give(&mut self, bytes: u64, after: Option<Point>) {
        self.free.push(Block { bytes, after });
    }

    /// Gives back to the system what is idle, as long as `keep` bytes stay.
    pub(crate) fn shrink(&mut self, keep: u64, queues: &Queues) {
        let mut excess = self.reserved.saturating_sub(keep);
        self.free.retain_mut(|block| {
            if block.idle(queues) {
                let given = excess.min(block.bytes);
                block.bytes -= given;
                excess -= given;
                self.reserved -= given;
            }
            block.bytes > 0
        });
    }
}
