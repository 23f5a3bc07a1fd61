//! What is asked of every peer, and how one that allocates through a Rust crate is timed.

use std::{
    error::Error,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A block of the live set that is freed, and what is allocated in its place. As in `shims/peer.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) bytes: u64,
    pub(crate) block: u32,
}

/// An event of a trace: an allocation, or a free where `bytes` is 0. As in `shims/peer.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) bytes: u64,
    pub(crate) block: u32,
    pub(crate) stream: u32,
}

/// An allocator to be measured. Times are nanoseconds of a whole batch, taken beside the peer's own calls.
pub(crate) trait Peer: Sync {
    /// Once in every thread, before anything else is asked there.
    fn attach(&self) -> Outcome<()>;
    /// Waits for every stream.
    fn drain(&self) -> Outcome<()>;
    /// Gives free memory back.
    fn trim(&self) -> Outcome<()>;
    /// `count` times allocated and freed, and with `synchronise` waited for.
    fn pairs(&self, stream: u32, bytes: u64, count: u32, synchronise: bool) -> Outcome<f64>;
    /// Makes the live set.
    fn fill(&self, bytes: &[u64]) -> Outcome<()>;
    fn churn(&self, steps: &[Step]) -> Outcome<f64>;
    /// Ends the live set.
    fn empty(&self) -> Outcome<()>;
    /// With `reserved`, what the peer holds after each event is written there, and the time is of no use.
    fn replay(&self, events: &[Event], blocks: u32, reserved: Option<&mut [u64]>) -> Outcome<f64>;
}

/// How a crate allocates.
pub(crate) trait Allocate: Sync {
    type Block: Send;
    fn attach(&self) -> Outcome<()>;
    fn allocate(&self, stream: u32, bytes: u64) -> Outcome<Self::Block>;
    fn synchronize(&self, stream: u32) -> Outcome<()>;
    fn streams(&self) -> u32;
    fn trim(&self) -> Outcome<()>;
    fn reserved(&self) -> Outcome<u64>;
}

/// A crate's allocator, with its live set. Blocks are freed by dropping them, in the order of the stream that they were
/// allocated on.
pub(crate) struct Timed<A: Allocate> {
    live: Mutex<Vec<Option<A::Block>>>,
    allocator: A,
}

impl<A: Allocate> Timed<A> {
    pub(crate) const fn new(allocator: A) -> Self {
        Self { live: Mutex::new(Vec::new()), allocator }
    }

    fn live(&self) -> MutexGuard<'_, Vec<Option<A::Block>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Allocate> Peer for Timed<A> {
    fn attach(&self) -> Outcome<()> {
        self.allocator.attach()
    }

    fn drain(&self) -> Outcome<()> {
        (0..self.allocator.streams()).try_for_each(|stream| self.allocator.synchronize(stream))
    }

    fn trim(&self) -> Outcome<()> {
        self.allocator.trim()
    }

    fn pairs(&self, stream: u32, bytes: u64, count: u32, synchronise: bool) -> Outcome<f64> {
        let start = Instant::now();
        for _ in 0..count {
            drop(self.allocator.allocate(stream, bytes)?);
            if synchronise {
                self.allocator.synchronize(stream)?;
            }
        }
        Ok(nanoseconds(start))
    }

    fn fill(&self, bytes: &[u64]) -> Outcome<()> {
        let mut live = self.live();
        for bytes in bytes {
            live.push(Some(self.allocator.allocate(0, *bytes)?));
        }
        Ok(())
    }

    fn churn(&self, steps: &[Step]) -> Outcome<f64> {
        let mut live = self.live();
        let live = live.as_mut_slice();
        let start = Instant::now();
        for step in steps {
            let block = &mut live[step.block as usize];
            *block = None;
            *block = Some(self.allocator.allocate(0, step.bytes)?);
        }
        Ok(nanoseconds(start))
    }

    fn empty(&self) -> Outcome<()> {
        self.live().clear();
        Ok(())
    }

    fn replay(&self, events: &[Event], blocks: u32, mut reserved: Option<&mut [u64]>) -> Outcome<f64> {
        let mut allocated: Vec<Option<A::Block>> = (0..blocks).map(|_| None).collect();
        let start = Instant::now();
        for (at, event) in events.iter().enumerate() {
            allocated[event.block as usize] = match event.bytes {
                0 => None,
                bytes => Some(self.allocator.allocate(event.stream, bytes)?),
            };
            if let Some(reserved) = &mut reserved {
                reserved[at] = self.allocator.reserved()?;
            }
        }
        Ok(nanoseconds(start))
    }
}

fn nanoseconds(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}
