//! A trace, and what must hold for one.

use crate::{Broken, Error};

/// What a program asked of its allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What was recorded.
    pub name: String,
    /// How many streams it used; they are numbered from 0.
    pub streams: u32,
    /// What it asked for, in order.
    pub events: Vec<Event>,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Memory is asked for.
    Allocate {
        /// Numbers the allocations of the trace from 0.
        id: u32,
        /// How much is asked for; never 0.
        bytes: u64,
        /// The stream whose order the memory is allocated in.
        stream: u32,
    },
    /// Memory is given back.
    Free {
        /// The allocation that ends.
        id: u32,
        /// The stream whose order it ends in.
        stream: u32,
    },
}

impl Trace {
    /// The most bytes that were allocated at once.
    ///
    /// ```
    /// use traces::{Event, Trace};
    ///
    /// let events = vec![
    ///     Event::Allocate { id: 0, bytes: 5, stream: 0 },
    ///     Event::Free { id: 0, stream: 0 },
    ///     Event::Allocate { id: 1, bytes: 3, stream: 0 },
    /// ];
    /// assert_eq!(Trace { name: "small".into(), streams: 1, events }.peak_live(), 5);
    /// ```
    #[must_use]
    pub fn peak_live(&self) -> u64 {
        self.live().max().unwrap_or(0)
    }

    /// The bytes that are allocated after each event.
    pub fn live(&self) -> impl Iterator<Item = u64> {
        let (mut sizes, mut live) = (Vec::new(), 0_u64);
        self.events.iter().map(move |event| {
            match *event {
                Event::Allocate { bytes, .. } => {
                    sizes.push(bytes);
                    live = live.saturating_add(bytes);
                }
                Event::Free { id, .. } => {
                    let freed = sizes.get_mut(id as usize).map(std::mem::take);
                    live = live.saturating_sub(freed.unwrap_or(0));
                }
            }
            live
        })
    }

    /// Whether the events can have happened: allocations are numbered from 0 in order, each is freed at most once and
    /// after it was made, and streams are those that there are.
    ///
    /// # Errors
    /// [`Error::Event`] names the first event that cannot have.
    pub fn check(&self) -> Result<(), Error> {
        // 0 for what has been freed.
        let mut sizes: Vec<u64> = Vec::new();
        let mut live = 0_u64;
        for (index, event) in self.events.iter().enumerate() {
            self.step(*event, &mut sizes, &mut live).map_err(|broken| Error::Event { event: index, broken })?;
        }
        Ok(())
    }

    fn step(&self, event: Event, sizes: &mut Vec<u64>, live: &mut u64) -> Result<(), Broken> {
        let (Event::Allocate { stream, .. } | Event::Free { stream, .. }) = event;
        if stream >= self.streams {
            return Err(Broken::Stream { stream: stream.into(), streams: self.streams });
        }
        match event {
            Event::Allocate { id, bytes, .. } => {
                let expected = u32::try_from(sizes.len()).map_err(|_| Broken::TooMany)?;
                if id != expected {
                    return Err(Broken::Id { id: id.into(), expected });
                }
                if bytes == 0 {
                    return Err(Broken::Empty);
                }
                *live = live.checked_add(bytes).ok_or(Broken::TooMuch)?;
                sizes.push(bytes);
            }
            Event::Free { id, .. } => {
                let size = sizes.get_mut(id as usize).ok_or(Broken::Unknown(id.into()))?;
                if *size == 0 {
                    return Err(Broken::DoubleFree(id.into()));
                }
                *live -= *size;
                *size = 0;
            }
        }
        Ok(())
    }
}
