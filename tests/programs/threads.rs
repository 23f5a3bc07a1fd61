//! Threads that hand buffers to each other, each with streams of its own.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use cupool::{Buffer, Context, Driver, MemPool, PinnedBuffer, Stream};
use cupool_sim::Simulator;

use super::choices::Choices;

/// A buffer of elements that are all alike.
struct Parcel {
    buffer: Buffer<u32>,
    value: u32,
}

/// What one thread does.
struct Worker<'a> {
    context: &'a Context,
    pool: &'a MemPool,
    /// Used by all threads.
    shared: Arc<Stream>,
    own: Arc<Stream>,
    choices: Choices,
    inbox: Receiver<Parcel>,
    outboxes: Vec<Sender<Parcel>>,
    held: Vec<Parcel>,
}

impl Worker<'_> {
    fn work(mut self, steps: usize) {
        for _ in 0..steps {
            self.held.extend(self.inbox.try_iter());
            self.step();
        }
    }

    fn step(&mut self) {
        let stream = if self.choices.once_in(2) { &self.own } else { &self.shared };
        let at = self.choices.below(self.held.len());
        let value = self.choices.next() as u32;
        match self.choices.below(9) {
            0..2 => {
                let len = 1 + self.choices.below(200);
                let mut buffer = self.pool.alloc::<u32, _>(len, Arc::clone(stream)).unwrap();
                buffer.fill(value).unwrap();
                self.held.push(Parcel { buffer, value });
            }
            _ if self.held.is_empty() => stream.synchronize().unwrap(),
            2 => drop(self.held.swap_remove(at)),
            3..5 => {
                let parcel = self.held.swap_remove(at);
                // A thread that is done takes nothing more; what it was sent is dropped.
                self.outboxes[self.choices.below(self.outboxes.len())].send(parcel).ok();
            }
            5 => {
                let Parcel { buffer, value } = self.held.swap_remove(at);
                let buffer = buffer.move_to(Arc::clone(stream)).map_err(|(error, _)| error).unwrap();
                self.held.push(Parcel { buffer, value });
            }
            6 => {
                let parcel = &mut self.held[at];
                parcel.buffer.on(stream).unwrap().as_mut_slice().fill(value).unwrap();
                parcel.value = value;
            }
            7 => {
                let parcel = &self.held[at];
                let mut copy = self.pool.alloc::<u32, _>(parcel.buffer.len(), stream).unwrap();
                copy.copy_from(parcel.buffer.as_slice()).unwrap();
                assert_eq!(copy.to_vec().unwrap(), vec![parcel.value; copy.len()]);
            }
            _ => {
                let parcel = &mut self.held[at];
                let mut pinned = PinnedBuffer::new(self.context, parcel.buffer.len()).unwrap();
                parcel.buffer.as_slice().copy_to_pinned(&mut pinned).unwrap();
                assert_eq!(pinned.as_slice().unwrap(), vec![parcel.value; pinned.len()]);
                pinned.as_mut_slice().unwrap().fill(value);
                parcel.buffer.as_mut_slice().copy_from_pinned(&pinned).unwrap();
                parcel.value = value;
            }
        }
    }
}

/// Runs as many threads, each for so many steps.
pub(crate) fn run(seed: u64, threads: usize, steps: usize) {
    let simulator = Simulator::builder().seed(seed).record_calls(false).build();
    // SAFETY: every entry behaves as the driver's, and the simulator outlives all that is made with it.
    let driver = unsafe { Driver::from_functions(simulator.functions()) };
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let pool = MemPool::new(&context.device()).unwrap();
    let shared = Arc::new(Stream::new(&context).unwrap());
    let (outboxes, inboxes): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    thread::scope(|scope| {
        for (number, inbox) in inboxes.into_iter().enumerate() {
            let worker = Worker {
                context: &context,
                pool: &pool,
                shared: Arc::clone(&shared),
                own: Arc::new(Stream::new(&context).unwrap()),
                choices: Choices::new(seed.wrapping_mul(31).wrapping_add(number as u64)),
                inbox,
                outboxes: outboxes.clone(),
                held: Vec::new(),
            };
            scope.spawn(move || worker.work(steps));
        }
        drop(outboxes);
    });
    drop((pool, shared));
    context.synchronize().unwrap();
    assert_eq!(MemPool::destroy_dropped(context.driver()), Ok(0), "seed {seed}");
    let (findings, live) = (simulator.findings(), simulator.live());
    assert!(findings.is_empty(), "seed {seed}: {}", findings[0]);
    assert_eq!((live.allocations, live.streams, live.pools, live.pending_operations), (0, 0, 0, 0), "seed {seed}");
}
