//! Who used which bytes: for each byte the last write, and the reads since.

use crate::{checker::Operation, past::Stand, work::Point};

/// What an operation does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// One use, as later ones are compared with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) point: Point,
    pub(crate) operation: Operation,
}

/// Bytes that were used alike.
#[derive(Clone, Debug)]
struct Span {
    start: u64,
    end: u64,
    written: Option<Access>,
    /// Those since, but for those that a later one of them follows.
    read: Vec<Access>,
}

/// The uses of one allocation or range.
///
/// Operations enter as they run, which is an order that respects every ordering there is. Then it is enough to compare
/// each with the last write and the reads since: if any two uses of a byte are unordered, some two are found, whatever
/// the order in which they happened to run.
#[derive(Debug)]
pub(crate) struct History {
    /// Sorted, and apart.
    spans: Vec<Span>,
}

impl Span {
    /// A use that the new one conflicts with.
    fn conflict(&self, kind: Use, stand: &Stand) -> Option<Access> {
        let unordered = |access: &&Access| !stand.follows(access.point);
        let written = self.written.as_ref().filter(unordered);
        let read = || self.read.iter().find(unordered).filter(|_| kind == Use::Write);
        written.or_else(read).copied()
    }

    fn note_read(&mut self, access: Access, stand: &Stand) {
        self.read.retain(|earlier| !stand.follows(earlier.point));
        self.read.push(access);
    }

    fn new(start: u64, end: u64, kind: Use, access: Access) -> Self {
        match kind {
            Use::Write => Self { start, end, written: Some(access), read: Vec::new() },
            Use::Read => Self { start, end, written: None, read: vec![access] },
        }
    }
}

impl History {
    pub(crate) const fn new() -> Self {
        Self { spans: Vec::new() }
    }

    /// Forgets all uses.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
    }

    /// Enters a use of the bytes from `start` to `end`; answers an earlier one that it conflicts with.
    pub(crate) fn note(
        &mut self,
        start: u64,
        end: u64,
        kind: Use,
        operation: Operation,
        stand: &Stand,
    ) -> Option<Access> {
        let point = stand.point?;
        if start >= end {
            return None;
        }
        let access = Access { point, operation };
        let first = self.split(start);
        let last = self.split(end);
        let used = self.spans.get(first..last).unwrap_or(&[]);
        let conflict = used.iter().find_map(|span| span.conflict(kind, stand));
        if kind == Use::Write {
            self.spans.splice(first..last, [Span::new(start, end, kind, access)]);
            return conflict;
        }
        let whole = used.first().is_some_and(|span| span.start == start)
            && used.last().is_some_and(|span| span.end == end)
            && used.windows(2).all(|pair| matches!(pair, [a, b] if a.end == b.start));
        if whole {
            for span in self.spans.get_mut(first..last).unwrap_or(&mut []) {
                span.note_read(access, stand);
            }
            return conflict;
        }
        let mut filled = Vec::with_capacity(2 * (last - first) + 1);
        let mut at = start;
        for mut span in self.spans.drain(first..last) {
            if at < span.start {
                filled.push(Span::new(at, span.start, kind, access));
            }
            at = span.end;
            span.note_read(access, stand);
            filled.push(span);
        }
        if at < end {
            filled.push(Span::new(at, end, kind, access));
        }
        self.spans.splice(first..first, filled);
        conflict
    }

    /// Has no span reach across `at`; answers the index of the first that begins there or later.
    fn split(&mut self, at: u64) -> usize {
        let index = self.spans.partition_point(|span| span.end <= at);
        let Some(span) = self.spans.get_mut(index).filter(|span| span.start < at) else { return index };
        let mut rest = span.clone();
        (span.end, rest.start) = (at, at);
        self.spans.insert(index + 1, rest);
        index + 1
    }

    /// A use that does not come before.
    pub(crate) fn unordered(&self, stand: &Stand) -> Option<Access> {
        let uses = self.spans.iter().flat_map(|span| span.read.iter().chain(&span.written));
        uses.copied().find(|access| !stand.follows(access.point))
    }
}

#[cfg(test)]
mod tests {
    use cuda_sys::Symbol;

    use super::*;
    use crate::past::Past;

    fn operation(id: u64) -> Operation {
        Operation { id, entry: Symbol::cuMemsetD8Async, stream: None }
    }

    fn stand(queue: u32, count: u64, before: &[(u32, u64)]) -> Stand {
        let mut past = Past::nothing();
        for (queue, count) in before {
            past.add(Point { queue: *queue, count: *count });
        }
        Stand { point: Some(Point { queue, count }), past }
    }

    fn conflict(history: &mut History, range: (u64, u64), kind: Use, id: u64, stand: &Stand) -> Option<u64> {
        history.note(range.0, range.1, kind, operation(id), stand).map(|access| access.operation.id)
    }

    #[test]
    fn only_bytes_that_both_use_conflict() {
        let mut history = History::new();
        assert_eq!(conflict(&mut history, (0, 10), Use::Write, 1, &stand(0, 1, &[])), None);
        assert_eq!(conflict(&mut history, (10, 20), Use::Write, 2, &stand(1, 1, &[])), None);
        assert_eq!(conflict(&mut history, (12, 14), Use::Read, 3, &stand(1, 2, &[])), None);
        assert_eq!(conflict(&mut history, (15, 16), Use::Write, 4, &stand(2, 1, &[(1, 1)])), None);
        assert_eq!(conflict(&mut history, (13, 14), Use::Write, 5, &stand(2, 2, &[(1, 1)])), Some(3));
        assert_eq!(conflict(&mut history, (9, 11), Use::Read, 6, &stand(2, 3, &[(1, 1)])), Some(1));
    }

    #[test]
    fn reads_do_not_conflict_and_the_last_of_a_chain_stands_for_it() {
        let mut history = History::new();
        assert_eq!(conflict(&mut history, (0, 8), Use::Read, 1, &stand(0, 1, &[])), None);
        assert_eq!(conflict(&mut history, (0, 8), Use::Read, 2, &stand(1, 1, &[])), None);
        assert_eq!(conflict(&mut history, (0, 8), Use::Read, 3, &stand(0, 2, &[(1, 1)])), None);
        assert_eq!(conflict(&mut history, (0, 8), Use::Write, 4, &stand(2, 1, &[(0, 2)])), None);
        assert_eq!(history.spans.len(), 1);
    }

    #[test]
    fn a_read_across_gaps_is_kept_for_every_byte() {
        let mut history = History::new();
        conflict(&mut history, (2, 4), Use::Write, 1, &stand(0, 1, &[]));
        conflict(&mut history, (6, 8), Use::Write, 2, &stand(0, 2, &[]));
        assert_eq!(conflict(&mut history, (0, 10), Use::Read, 3, &stand(0, 3, &[])), None);
        for byte in 0..10 {
            let mut copy = History { spans: history.spans.clone() };
            assert!(conflict(&mut copy, (byte, byte + 1), Use::Write, 4, &stand(1, 1, &[(0, 2)])).is_some());
        }
        assert!(history.unordered(&stand(1, 1, &[(0, 2)])).is_some());
        assert!(history.unordered(&stand(1, 1, &[(0, 3)])).is_none());
    }

    #[test]
    fn a_write_over_everything_leaves_one_span() {
        let mut history = History::new();
        for part in 0..100 {
            conflict(&mut history, (part, part + 1), Use::Write, part, &stand(0, part, &[]));
        }
        conflict(&mut history, (0, 100), Use::Write, 100, &stand(0, 100, &[]));
        assert_eq!(history.spans.len(), 1);
    }
}
