//! What an operation comes after: a vector clock, with one count for each queue.

use std::sync::Arc;

use crate::work::Point;

/// Everything that has come before. Copies share it until one of them learns more.
#[derive(Clone, Debug)]
pub(crate) struct Past(Option<Arc<Vec<u64>>>);

/// A point in stream order, with all that comes before it on other queues.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) point: Point,
    pub(crate) past: Past,
}

impl Past {
    /// Nothing has come before.
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    fn counts(&self) -> &[u64] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether the point has come before.
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.counts().get(point.queue as usize).is_some_and(|count| *count >= point.count) || point.count == 0
    }

    /// From now on the point has come before too; says whether that is news.
    pub(crate) fn add(&mut self, point: Point) -> bool {
        if self.covers(point) {
            return false;
        }
        let counts = Arc::make_mut(self.0.get_or_insert_default());
        let slot = point.queue as usize;
        if counts.len() <= slot {
            counts.resize(slot + 1, 0);
        }
        if let Some(count) = counts.get_mut(slot) {
            *count = point.count;
        }
        true
    }

    /// From now on all that came before the other has come before this too; says whether that is news.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (&mut self.0, &other.0) else {
            let news = other.0.is_some();
            if news {
                self.0.clone_from(&other.0);
            }
            return news;
        };
        if Arc::ptr_eq(own, others) {
            return false;
        }
        let known = others.len() <= own.len() && own.iter().zip(others.iter()).all(|(own, other)| own >= other);
        if known {
            return false;
        }
        let own = Arc::make_mut(own);
        if own.len() < others.len() {
            own.resize(others.len(), 0);
        }
        for (own, other) in own.iter_mut().zip(others.iter()) {
            *own = (*own).max(*other);
        }
        true
    }
}

/// Where an operation stands in the order: its own point, and what comes before it.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    /// None for what the host does itself: nothing on any queue comes after it unless it is enqueued later.
    pub(crate) point: Option<Point>,
    pub(crate) past: Past,
}

impl Stand {
    /// Whether the point comes before this, or is this itself.
    pub(crate) fn follows(&self, earlier: Point) -> bool {
        match self.point {
            Some(own) if own.queue == earlier.queue => earlier.count <= own.count,
            _ => self.past.covers(earlier),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn point(queue: u32, count: u64) -> Point {
        Point { queue, count }
    }

    #[test]
    fn a_past_covers_what_was_added_and_joined_and_nothing_else() {
        let mut past = Past::nothing();
        assert!(past.add(point(2, 5)));
        assert!(!past.add(point(2, 4)));
        assert!(past.covers(point(2, 5)) && past.covers(point(9, 0)));
        assert!(!past.covers(point(2, 6)) && !past.covers(point(1, 1)));
        let mut other = Past::nothing();
        assert!(other.join(&past));
        assert!(!other.join(&past));
        assert!(other.add(point(0, 3)));
        assert!(past.join(&other));
        assert!(past.covers(point(0, 3)) && past.covers(point(2, 5)));
        assert!(!other.join(&past));
    }

    #[test]
    fn copies_do_not_learn_from_each_other() {
        let mut past = Past::nothing();
        past.add(point(0, 1));
        let kept = past.clone();
        past.add(point(0, 2));
        assert!(!kept.covers(point(0, 2)));
    }

    #[test]
    fn an_operation_follows_its_own_queue_without_being_told() {
        let stand = Stand { point: Some(point(1, 7)), past: Past::nothing() };
        assert!(stand.follows(point(1, 7)) && stand.follows(point(1, 1)));
        assert!(!stand.follows(point(1, 8)) && !stand.follows(point(0, 1)));
    }
}
