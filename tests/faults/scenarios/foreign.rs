//! Foreign memory with its owners, tensors, and page-locked memory in parts.

use std::sync::Arc;

use cupool::{Buffer, Context, ForeignBuffer, MemPool, PinnedBuffer, Result, Stream, StreamHandle};

use crate::faults::world::{Base, Scenario, World, scenarios};

const LEN: usize = 100;

pub(super) fn all() -> Vec<Scenario> {
    #[cfg_attr(not(feature = "dlpack"), expect(unused_mut, reason = "tensors are a feature"))]
    let mut all = scenarios! {
        Base: foreign_memory_is_used_and_dropped, foreign_memory_is_dropped_and_waited_for,
            foreign_memory_is_dropped_in_the_middle_of_its_work, foreign_memory_is_lent, foreign_memory_is_given_back,
            foreign_memory_is_released_in_order, page_locked_memory_is_taken_apart;
    };
    #[cfg(feature = "dlpack")]
    all.extend(tensors::all());
    all
}

/// Another library's memory, on a stream and in a share of the context of its own.
fn theirs(world: &mut World<'_>, base: &Base) -> Option<Buffer<u32>> {
    let context: Context = world.get(base.device.primary_context())?;
    let stream = Arc::new(world.get(Stream::new(&context))?);
    let memory = world.get(base.pool.alloc::<u32, _>(LEN, stream))?;
    Some(memory)
}

fn lent<S: StreamHandle>(
    world: &mut World<'_>,
    memory: Buffer<u32>,
    stream: S,
) -> Option<ForeignBuffer<u32, Buffer<u32>, S>> {
    // It is allocated in the order of its own stream.
    world.get(stream.stream().wait_for(memory.home()))?;
    let address = memory.as_raw();
    // SAFETY: the memory is the owner's, which does nothing with it, and the stream waits for its allocation.
    world.get_or_drop(unsafe { ForeignBuffer::new(address, LEN, stream, memory) })
}

fn foreign_memory_is_used_and_dropped(world: &mut World<'_>, base: Base) -> Option<()> {
    let memory = theirs(world, &base)?;
    let mut ours = lent(world, memory, &*base.first)?;
    world.go_on(ours.as_mut_slice().fill(3));
    world.equal(ours.to_vec(), [3; LEN]);
    drop(ours);
    Some(())
}

fn foreign_memory_is_dropped_and_waited_for(world: &mut World<'_>, base: Base) -> Option<()> {
    let memory = theirs(world, &base)?;
    let mut ours = lent(world, memory, Arc::clone(&base.first))?;
    world.go_on(ours.as_mut_slice().fill(3));
    drop(ours);
    world.go_on(base.context.drop_retired());
    Some(())
}

fn foreign_memory_is_dropped_in_the_middle_of_its_work(world: &mut World<'_>, base: Base) -> Option<()> {
    let mut result = world.get(base.pool.alloc::<u32, _>(LEN, &*base.second))?;
    for value in [1, 2] {
        let memory = theirs(world, &base)?;
        let mut ours = lent(world, memory, &*base.first)?;
        world.go_on(ours.as_mut_slice().fill(value));
        world.go_on(result.copy_from(ours.as_slice()));
    }
    world.equal(result.to_vec(), [2; LEN]);
    Some(())
}

fn foreign_memory_is_lent(world: &mut World<'_>, base: Base) -> Option<()> {
    let memory = theirs(world, &base)?;
    let mut ours = lent(world, memory, &*base.first)?;
    if let Some(mut loan) = world.get(ours.on(&base.second)) {
        world.go_on(loan.as_mut_slice().fill(4));
    }
    world.equal(ours.to_vec(), [4; LEN]);
    Some(())
}

fn foreign_memory_is_given_back(world: &mut World<'_>, base: Base) -> Option<()> {
    let memory = theirs(world, &base)?;
    let mut ours = lent(world, memory, &*base.first)?;
    world.go_on(ours.as_mut_slice().fill(5));
    let memory = world.get_or_drop(ours.into_owner())?;
    world.equal(memory.to_vec(), [5; LEN]);
    Some(())
}

fn foreign_memory_is_released_in_order(world: &mut World<'_>, base: Base) -> Option<()> {
    let (address, len, _) = world.get(base.pool.alloc::<u32, _>(LEN, &*base.first))?.into_raw_parts();
    // SAFETY: the parts of the buffer above, which nobody uses after this point of its stream.
    let free = |home: &Stream| drop(unsafe { Buffer::<u32, _>::from_raw_parts(address, len, home) });
    // SAFETY: as above; `free` frees in the order of the stream that it is given.
    let mut ours =
        world.get_or_drop(unsafe { ForeignBuffer::<u32, _, _>::with_release(address, len, &*base.first, free) })?;
    world.go_on(ours.as_mut_slice().fill(6));
    world.equal(ours.to_vec(), [6; LEN]);
    Some(())
}

fn page_locked_memory_is_taken_apart(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc_zeroed::<u32, _>(LEN, &*base.first))?;
    let mut host = world.get(PinnedBuffer::from_slice(&base.context, &[1_u32; LEN]))?;
    world.go_on(buffer.copy_to_pinned(&mut host));
    let (address, len, context) = world.get_or_drop(host.into_raw_parts())?;
    let context = context?;
    // SAFETY: the parts of the buffer above.
    let taken: Result<_> = unsafe { PinnedBuffer::from_raw_parts(&context, address, len) };
    match taken {
        Ok(host) => world.equal(host.as_slice(), [0; LEN]),
        Err(error) => {
            // It is still the caller's.
            let free = base.context.driver().functions().cuMemFreeHost?;
            // SAFETY: as above, and nobody uses it.
            let _ = context.with_current(|| Ok(unsafe { free(address.cast()) }));
            world.go_on(Err::<(), _>(error));
        }
    }
    Some(())
}

#[cfg(feature = "dlpack")]
mod tensors {
    use cupool::dlpack::{ConsumerStream, ImportedTensor, ManagedTensor};

    use super::*;

    pub(super) fn all() -> Vec<Scenario> {
        scenarios! {
            Base: a_tensor_for_a_consumer_at_home, a_tensor_for_the_legacy_default_stream,
                a_tensor_for_the_default_stream_of_a_thread, a_tensor_that_comes_back;
        }
    }

    fn exported(
        world: &mut World<'_>,
        pool: &MemPool,
        home: &Arc<Stream>,
        consumer: ConsumerStream,
    ) -> Option<ManagedTensor> {
        let mut buffer = world.get(pool.alloc::<u32, _>(LEN, Arc::clone(home)))?;
        world.go_on(buffer.fill(1));
        world.get_or_drop(buffer.into_dlpack(&[10, LEN / 10], consumer))
    }

    fn a_tensor_for_a_consumer_at_home(world: &mut World<'_>, base: Base) -> Option<()> {
        let tensor = exported(world, &base.pool, &base.first, ConsumerStream::HOME)?;
        drop(tensor);
        Some(())
    }

    fn a_tensor_for_the_legacy_default_stream(world: &mut World<'_>, base: Base) -> Option<()> {
        let tensor = exported(world, &base.pool, &base.first, ConsumerStream::LEGACY)?;
        drop(tensor);
        Some(())
    }

    fn a_tensor_for_the_default_stream_of_a_thread(world: &mut World<'_>, base: Base) -> Option<()> {
        let tensor = exported(world, &base.pool, &base.first, ConsumerStream::PER_THREAD)?;
        drop(tensor);
        Some(())
    }

    fn a_tensor_that_comes_back(world: &mut World<'_>, base: Base) -> Option<()> {
        // SAFETY: the stream outlives the tensor.
        let consumer = unsafe { ConsumerStream::from_raw(base.second.as_raw()) };
        let tensor = exported(world, &base.pool, &base.first, consumer)?;
        // SAFETY: that is the stream that was named.
        let mut tensor = world.get(unsafe { ImportedTensor::<u32, _>::from_managed(tensor, &*base.second) })?;
        world.go_on(tensor.as_mut_slice().and_then(|mut all| all.fill(8)));
        world.equal(tensor.as_slice().to_vec(), [8; LEN]);
        drop(tensor);
        world.go_on(base.context.drop_retired());
        Some(())
    }
}
