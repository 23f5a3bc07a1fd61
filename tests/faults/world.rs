//! What a scenario is, and what it works with.

use std::{fmt::Debug, panic::resume_unwind, sync::Arc};

use cupool::{Context, Device, Driver, Error, MemPool, MemPoolProperties, Result, Stream};
use cupool_sim::{Simulator, Symbol};

use super::left::Left;

/// The size limit of pools: one without reserves addresses for twice the device's memory.
pub(crate) const POOL_SIZE: usize = 64 << 20;

/// One small use of the public API.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) body: Body,
    /// What it leaves behind on purpose when nothing fails. If it does, what it leaves when something fails is no more
    /// than that and what the failure leaves; else it is exactly what the failure leaves.
    pub(crate) forgets: Left,
    /// Calls that the driver refuses when nothing fails: that occurrence of a symbol, counted from 0.
    pub(crate) refused: &'static [(Symbol, usize)],
    /// An allocation in it does not fit at first.
    pub(crate) rescues: bool,
    /// Threads whose calls come in an order of their own each time. What is left is then no more than what is made.
    pub(crate) threads: bool,
}

/// What a scenario starts from, and ends itself.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// A driver, which somebody has initialised.
    Driver(fn(&mut World<'_>, Driver) -> Option<()>),
    /// One of the objects that most uses need; making them does not fail.
    Base(fn(&mut World<'_>, Base) -> Option<()>),
}

impl Scenario {
    pub(crate) const fn new(name: &'static str, body: Body) -> Self {
        Self { name, body, forgets: Left::NONE, refused: &[], rescues: false, threads: false }
    }

    /// It gives up so many allocations when nothing fails.
    pub(crate) const fn forgets(mut self, allocations: i64) -> Self {
        self.forgets.allocations = allocations;
        self
    }

    pub(crate) const fn refused(mut self, refused: &'static [(Symbol, usize)]) -> Self {
        self.refused = refused;
        self
    }

    pub(crate) const fn rescues(mut self) -> Self {
        self.rescues = true;
        self
    }

    pub(crate) const fn threads(mut self) -> Self {
        self.threads = true;
        self
    }
}

/// Names scenarios after the functions that they are.
macro_rules! scenarios {
    ($( $kind:ident: $($name:ident),* $(,)?; )*) => {
        vec![$( $( $crate::faults::world::Scenario::new(stringify!($name), $crate::faults::world::Body::$kind($name)) ),* ),*]
    };
}
pub(crate) use scenarios;

pub(crate) struct Base {
    pub(crate) device: Device,
    pub(crate) context: Context,
    pub(crate) pool: MemPool,
    pub(crate) first: Arc<Stream>,
    pub(crate) second: Arc<Stream>,
}

impl Base {
    pub(crate) fn new(driver: Driver) -> Self {
        let device = driver.device(0).unwrap();
        let context = device.primary_context().unwrap();
        let pool = limited(device).unwrap();
        let [first, second] = [(), ()].map(|()| Arc::new(Stream::new(&context).unwrap()));
        Self { device, context, pool, first, second }
    }
}

pub(crate) fn limited(device: Device) -> Result<MemPool> {
    MemPool::with_properties(&device, &MemPoolProperties::new().max_size(POOL_SIZE))
}

/// What a scenario tells about itself.
pub(crate) struct World<'a> {
    pub(crate) sim: &'a Simulator,
    pub(crate) errors: Vec<Error>,
    unwinds: bool,
}

/// What a scenario that unwinds at its first error panics with.
pub(crate) struct Unwound;

impl<'a> World<'a> {
    pub(crate) const fn new(sim: &'a Simulator, unwinds: bool) -> Self {
        Self { sim, errors: Vec::new(), unwinds }
    }

    /// The value, or nothing and the error remembered.
    pub(crate) fn get<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(error);
                if self.unwinds {
                    resume_unwind(Box::new(Unwound));
                }
                None
            }
        }
    }

    /// The value, of a call that gives its argument back when it fails; drops that.
    pub(crate) fn get_or_drop<T, U>(&mut self, result: Result<T, (Error, U)>) -> Option<T> {
        self.get(result.map_err(|(error, _)| error))
    }

    /// Remembers the error if there is one, and goes on.
    pub(crate) fn go_on<T>(&mut self, result: Result<T>) {
        let _ = self.get(result);
    }

    /// Remembers the error if there is one, which may come without any failure, and goes on in any case.
    pub(crate) fn may_fail<T>(&mut self, result: Result<T>) {
        self.errors.extend(result.err());
    }

    /// An error that comes without any failure.
    pub(crate) fn refused<T>(&mut self, result: Result<T>) {
        let Err(error) = result else { panic!("what must be refused was not") };
        self.errors.push(error);
    }

    /// Contents must be right if nothing has failed so far.
    pub(crate) fn equal<T: PartialEq<U> + Debug, U: Debug>(&mut self, result: Result<T>, expected: U) {
        let whole = self.errors.is_empty();
        if let Some(value) = self.get(result)
            && whole
        {
            assert_eq!(value, expected);
        }
    }
}
