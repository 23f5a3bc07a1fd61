//! An event without a clock has no time to tell.
use cupool::{Event, Result, TimedEvent};

#[cfg(misuse)]
type Start = Event;
#[cfg(not(misuse))]
type Start = TimedEvent;

pub fn f(start: &Start, end: &TimedEvent) -> Result<f32> {
    end.elapsed_ms_since(start) //~ E0308
}
