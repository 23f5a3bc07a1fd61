//! cupool.

use std::sync::Arc;

use cupool::{Buffer, Context, Driver, Event, MemPool, Stream};

use super::{
    Operations,
    counts::{Counts, Operation::*},
};
use crate::peer::Outcome;

pub(super) struct Ours {
    context: Context,
    pool: MemPool,
    stream: Arc<Stream>,
    other: Arc<Stream>,
}

impl Ours {
    pub(super) fn open() -> Outcome<Self> {
        let device = Driver::load()?.device(0)?;
        let context = device.primary_context()?;
        let stream = || Ok::<_, cupool::Error>(Arc::new(Stream::new(&context)?));
        Ok(Self { pool: MemPool::new(&device)?, stream: stream()?, other: stream()?, context })
    }
}

impl Operations for Ours {
    fn run(&self, counts: &mut Counts) -> Outcome<()> {
        let Self { context, pool, stream, other } = self;
        let buffer: Buffer<u8> = counts.of(Allocate, "`MemPool::alloc`", || Ok(pool.alloc(64, Arc::clone(stream))?))?;
        counts.drop_of(Free, "`Buffer`", buffer)?;
        let zeroed = || Ok(pool.alloc_zeroed::<u8, _>(64, Arc::clone(stream))?);
        let mut buffer = counts.of(AllocateZeroed, "`MemPool::alloc_zeroed`", zeroed)?;
        counts.of(Fill, "`Buffer::fill_zero`", || Ok(buffer.fill_zero()?))?;
        counts.of(FromHost, "`Buffer::copy_from_host`", || Ok(buffer.copy_from_host(&[1; 64])?))?;
        counts.of(ToHost, "`Buffer::copy_to_host`", || Ok(buffer.copy_to_host(&mut [0; 64])?))?;
        let mut near = pool.alloc_zeroed::<u8, _>(64, Arc::clone(stream))?;
        counts.of(OnDevice, "`Buffer::copy_from`", || Ok(near.copy_from(buffer.as_slice())?))?;
        let mut far = pool.alloc_zeroed::<u8, _>(64, Arc::clone(other))?;
        counts.of(BetweenStreams, "`Buffer::copy_from`", || Ok(far.copy_from(buffer.as_slice())?))?;
        counts.of(Lend, "`Buffer::on`, drop of `Loan`", || Ok(buffer.on(other).map(drop)?))?;

        let made = counts.of(CreateStream, "`Stream::new`", || Ok(Stream::new(context)?))?;
        counts.drop_of(DestroyStream, "`Stream`", made)?;
        counts.of(Synchronize, "`Stream::synchronize`", || Ok(stream.synchronize()?))?;
        counts.of(OrderStreams, "`Stream::wait_for`", || Ok(other.wait_for(stream)?))?;
        let event = counts.of(CreateEvent, "`Event::new`", || Ok(Event::new(context)?))?;
        counts.of(Record, "`Event::record`", || Ok(event.record(stream)?))?;
        counts.of(Wait, "`Stream::wait`", || Ok(other.wait(&event)?))?;
        counts.drop_of(DestroyEvent, "`Event`", event)
    }
}
