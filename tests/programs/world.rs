//! The objects that a program holds, and the choice of its next step.

use core::ops::Deref;
use std::sync::Arc;

use cupool::{
    Buffer, Context, DeviceSlice, DeviceSliceMut, Driver, Error, Event, MemKind, MemPool, MemPoolProperties, Stream,
    StreamHandle, StreamOptions, StreamRef,
};
use cupool_sim::Simulator;

use super::{choices::Choices, controls::Rule, foreign::Foreign, managed::Managed, model::Model, pinned::Pin};

/// What every part of a program shares, and what outlives it.
pub(crate) struct Ground {
    pub(crate) simulator: Simulator,
    pub(crate) context: Context,
    pub(crate) streams: Vec<Stream>,
}

impl Ground {
    pub(crate) fn new(simulator: Simulator, choices: &mut Choices) -> Self {
        // SAFETY: every entry behaves as the driver's, and the simulator outlives all that is made with it.
        let driver = unsafe { Driver::from_functions(simulator.functions()) };
        let device = driver.device(0).unwrap();
        let context = device.primary_context().unwrap();
        let streams = (0..3)
            .map(|_| {
                let options = StreamOptions { blocking: choices.once_in(4), priority: 0 };
                Stream::with_options(&context, options).unwrap()
            })
            .collect();
        Self { simulator, context, streams }
    }
}

/// A stream, however it is held.
#[derive(Clone)]
pub(crate) enum AnyStream<'g> {
    Fixed(&'g Stream),
    Shared(Arc<Stream>),
}

impl Deref for AnyStream<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        match self {
            Self::Fixed(stream) => stream,
            Self::Shared(stream) => stream,
        }
    }
}

/// A buffer, however it holds its stream.
pub(crate) enum Any<'g> {
    Borrowed(Buffer<u8, &'g Stream>),
    Foreign(Buffer<u8, StreamRef<'g>>),
    Shared(Buffer<u8>),
    Erased(Buffer<u8, Arc<dyn StreamHandle + 'g>>),
}

/// Does the same with every kind of buffer.
macro_rules! each {
    ($any:expr, $buffer:ident => $work:expr) => {
        match $any {
            Any::Borrowed($buffer) => $work,
            Any::Foreign($buffer) => $work,
            Any::Shared($buffer) => $work,
            Any::Erased($buffer) => $work,
        }
    };
}
pub(crate) use each;

/// A buffer, and what it should hold.
pub(crate) struct Held<'g> {
    pub(crate) buffer: Any<'g>,
    pub(crate) model: Model,
}

impl Held<'_> {
    pub(crate) fn shared(&self) -> (DeviceSlice<'_, u8>, &Model) {
        (each!(&self.buffer, buffer => buffer.as_slice()), &self.model)
    }

    pub(crate) fn exclusive(&mut self) -> (DeviceSliceMut<'_, u8>, &mut Model) {
        (each!(&mut self.buffer, buffer => buffer.as_mut_slice()), &mut self.model)
    }
}

/// A program that is being run.
pub(crate) struct World<'g> {
    pub(crate) ground: &'g Ground,
    pub(crate) choices: Choices,
    pub(crate) shared: Vec<Arc<Stream>>,
    pub(crate) events: Vec<Event>,
    pub(crate) pools: Vec<MemPool>,
    pub(crate) held: Vec<Held<'g>>,
    pub(crate) pins: Vec<Pin>,
    pub(crate) foreign: Vec<Foreign<'g>>,
    pub(crate) managed: Vec<Managed<'g>>,
    pub(crate) managed_pool: MemPool,
    #[cfg(feature = "dlpack")]
    pub(crate) tensors: Vec<super::tensors::Tensor<'g>>,
    #[cfg(unix)]
    pub(crate) exchange: super::imports::Exchange<'g>,
    /// How often an event may have been made that the context keeps.
    pub(crate) marks: u64,
    #[cfg(feature = "launch")]
    pub(crate) kernels: super::launches::Kernels,
    /// Buffers whose loan was forgotten, and that are still to be dropped.
    pub(crate) lost: Vec<Held<'g>>,
    /// Allocations that nothing will free, because their loan was forgotten.
    pub(crate) leaked: usize,
    /// The first thing that was not as it should be.
    pub(crate) wrong: Option<String>,
    pub(crate) operations: u64,
    /// An ordering that the driver is told to ignore.
    pub(crate) without: Option<Rule>,
}

impl<'g> World<'g> {
    pub(crate) fn new(ground: &'g Ground, choices: Choices, without: Option<Rule>) -> Self {
        let shared = (0..2).map(|_| Arc::new(Stream::new(&ground.context).unwrap())).collect();
        let device = ground.context.device();
        let pools = [(0, u64::MAX), (64 << 20, 0), (4 << 20, u64::MAX)]
            .map(|(max_size, release_threshold)| {
                MemPoolProperties::new().release_threshold(release_threshold).max_size(max_size)
            })
            .map(|properties| MemPool::with_properties(&device, &properties).unwrap());
        let events = (0..2).map(|_| Event::new(&ground.context).unwrap()).collect();
        Self {
            ground,
            choices,
            shared,
            events,
            pools: pools.into(),
            held: Vec::new(),
            pins: Vec::new(),
            foreign: Vec::new(),
            managed: Vec::new(),
            managed_pool: MemPool::with_properties(&device, &MemPoolProperties::new().kind(MemKind::Managed)).unwrap(),
            #[cfg(feature = "dlpack")]
            tensors: Vec::new(),
            #[cfg(unix)]
            exchange: super::imports::Exchange::new(ground),
            marks: 0,
            #[cfg(feature = "launch")]
            kernels: super::launches::Kernels::new(ground),
            lost: Vec::new(),
            leaked: 0,
            wrong: None,
            operations: 0,
            without,
        }
    }

    pub(crate) fn stream(&mut self) -> AnyStream<'g> {
        let (fixed, shared) = (self.ground.streams.len(), self.shared.len());
        match self.choices.below(fixed + shared) {
            at if at < fixed => AnyStream::Fixed(&self.ground.streams[at]),
            at => AnyStream::Shared(Arc::clone(&self.shared[at - fixed])),
        }
    }

    /// A stream as a buffer holds it that holds any.
    pub(crate) fn any_home(&mut self) -> Arc<dyn StreamHandle + 'g> {
        match self.stream() {
            AnyStream::Fixed(stream) => Arc::new(stream),
            AnyStream::Shared(stream) => Arc::new(stream),
        }
    }

    /// How many elements to allocate: few, as a rule.
    pub(crate) fn len(&mut self) -> usize {
        let most = match self.choices.below(400) {
            0 => 700_000,
            1..4 => 80_000,
            4..60 => 5_000,
            60..80 => 1,
            _ => 300,
        };
        self.choices.below(most + 1)
    }

    /// Notes bytes that are not as expected.
    pub(crate) fn expect(&mut self, what: &str, model: &Model, start: usize, found: &[u8]) {
        if let Some(at) = model.differs(start, found) {
            let operations = self.operations;
            self.wrong.get_or_insert_with(|| format!("{what}, operation {operations}: byte {at} is wrong"));
        }
    }

    /// Takes a buffer out of the world.
    pub(crate) fn take(&mut self) -> Option<Held<'g>> {
        let count = self.held.len();
        (count > 0).then(|| self.choices.below(count)).map(|at| self.held.swap_remove(at))
    }

    /// Makes one step, inside as many loans.
    pub(crate) fn step(&mut self, depth: usize) {
        self.operations += 1;
        match self.choices.below(100) {
            0..12 => self.allocate(),
            12..20 => self.release(),
            20..46 => {
                if let Some(mut held) = self.take() {
                    let (view, model) = held.exclusive();
                    self.write(view, model);
                    self.held.push(held);
                }
            }
            46..50 => self.use_foreign(),
            50..54 => self.use_managed(),
            54..58 => self.use_tensors(),
            58..65 => {
                if let Some(held) = self.take() {
                    let (view, model) = held.shared();
                    self.read(view, model);
                    self.held.push(held);
                }
            }
            65..69 if depth < 3 => self.lend(depth),
            69..72 if depth < 3 => self.lend_shared(depth),
            72..74 if depth < 3 => self.lend_two(depth),
            74..76 => self.change_home(),
            76..78 => self.cast(),
            78..83 => self.use_pins(),
            83..86 => self.exchange(),
            86..92 => self.order(),
            92..94 => self.ask_pool(),
            94..95 => self.change_streams(),
            95..96 => self.hand_over(),
            96..97 => self.replay(),
            97..98 => self.lend_default(),
            _ => self.launch(),
        }
    }

    #[cfg(not(feature = "launch"))]
    fn launch(&mut self) {
        self.order();
    }

    #[cfg(not(unix))]
    fn exchange(&mut self) {
        self.order();
    }

    #[cfg(not(feature = "dlpack"))]
    fn use_tensors(&mut self) {
        self.order();
    }

    fn allocate(&mut self) {
        if self.held.len() > 24 {
            return self.release();
        }
        let len = self.len();
        let which = self.choices.below(self.pools.len() + 1);
        let own = (which < self.pools.len()).then(|| self.pools.swap_remove(which));
        let default = MemPool::default_of(&self.ground.context.device()).unwrap();
        let pool: &MemPool = own.as_ref().unwrap_or(&default);
        let handle = self.choices.below(4);
        let fixed = &self.ground.streams[self.choices.below(self.ground.streams.len())];
        let shared = Arc::clone(&self.shared[self.choices.below(self.shared.len())]);
        let made = match handle {
            0 => self.allocate_on(pool, len, fixed, Any::Borrowed),
            1 => {
                // SAFETY: the stream is of this context, and the ground keeps it.
                let stream = unsafe { StreamRef::borrow_raw(&self.ground.context, fixed.as_raw()) };
                self.allocate_on(pool, len, stream, Any::Foreign)
            }
            2 => self.allocate_on(pool, len, shared, Any::Shared),
            _ => {
                let stream: Arc<dyn StreamHandle + 'g> =
                    if self.choices.once_in(2) { Arc::new(fixed) } else { Arc::new(shared) };
                self.allocate_on(pool, len, stream, Any::Erased)
            }
        };
        self.held.extend(made);
        self.pools.extend(own);
    }

    fn allocate_on<S: StreamHandle>(
        &mut self,
        pool: &MemPool,
        len: usize,
        stream: S,
        any: impl Fn(Buffer<u8, S>) -> Any<'g>,
    ) -> Option<Held<'g>> {
        let _without = self.leave_out(Rule::Allocation);
        let (buffer, model) = match self.choices.below(3) {
            0 => (pool.alloc_zeroed(len, stream), Model::of(&vec![0; len])),
            1 => {
                let bytes = self.choices.bytes(len);
                (pool.alloc_from_host(&bytes, stream), Model::of(&bytes))
            }
            _ => (pool.alloc(len, stream), Model::unknown(len)),
        };
        match buffer {
            Ok(buffer) => Some(Held { buffer: any(buffer), model }),
            // Pools have limits.
            Err(Error::OutOfMemory(_)) => None,
            Err(error) => panic!("an allocation of {len} bytes: {error}"),
        }
    }

    fn release(&mut self) {
        let Some(held) = self.take() else { return };
        let _without = self.leave_out(Rule::Free);
        if self.choices.once_in(2) {
            drop(held);
        } else {
            each!(held.buffer, buffer => buffer.free().unwrap());
        }
    }

    /// Drops everything, in some order.
    pub(crate) fn end(mut self) -> (usize, u64, u64, Option<String>) {
        while !(self.held.is_empty()
            && self.pins.is_empty()
            && self.foreign.is_empty()
            && self.managed.is_empty()
            && self.shared.is_empty()
            && self.pools.is_empty())
        {
            match self.choices.below(12) {
                0..6 => self.release(),
                6 => self.drop_managed(),
                7 => self.drop_foreign(),
                8..10 => {
                    self.pins.pop();
                }
                10 => {
                    self.shared.pop();
                }
                _ => {
                    self.pools.pop();
                    self.lost.pop();
                }
            }
        }
        #[cfg(unix)]
        while !self.exchange.is_empty() {
            self.end_export();
        }
        #[cfg(feature = "dlpack")]
        while !self.tensors.is_empty() {
            self.drop_tensor();
        }
        // Owners hold on to the context.
        self.drop_retired();
        (self.leaked, self.operations, self.marks, self.wrong)
    }
}
