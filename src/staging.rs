//! Staging: page-locked memory of our own, between the caller's memory and the device.
//!
//! A copy straight from the caller's slice is not over when the call returns if the slice happens to be page-locked,
//! and CUDA's documentation does not promise it for ordinary memory either; a slice of which only a part is registered
//! is refused. Through a block of our own every slice is treated alike: the caller's memory is touched by the host
//! only, before the call returns, and what the device still has to read or write is a block that is not reused before
//! it is done. If that cannot be found out, the block is leaked.
//!
//! A context keeps its blocks for reuse: page-locked memory is slow to make, and freeing it waits for the device.

use core::ptr::NonNull;
use std::collections::VecDeque;

use cuda_sys::{CUcontext, CUdeviceptr_v2, CUevent, CUevent_flags_enum, CUstream, Functions};

use crate::{
    Error, Result, Stream, order, raw, release,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Bytes in a block for the many small copies, and in one for the few large.
const SMALL: usize = 64 << 10;
const LARGE: usize = 512 << 10;

/// How many blocks of a size a context makes before a copy waits for one of its own stream's.
const MOST: usize = 8;

/// Bytes in all blocks for large copies: what a stream can be behind before a copy to it waits.
pub(crate) const ALL: usize = LARGE * MOST;

/// How many blocks one large copy from the device has under way: one fills while the other is emptied.
const DEPTH: usize = 2;

/// The blocks of one context.
pub(crate) struct Staging {
    small: Shelf,
    large: Shelf,
}

/// Blocks of one size, the longest unused first.
struct Shelf {
    bytes: usize,
    shelf: Mutex<Stock>,
}

struct Stock {
    idle: VecDeque<Block>,
    made: usize,
}

/// Page-locked memory, and the event after which the device is done with it.
struct Block {
    memory: NonNull<u8>,
    event: CUevent,
    /// Where it was used last; only ever compared.
    stream: CUstream,
}

// SAFETY: the memory is owned by the block, and event handles may be used from every thread.
unsafe impl Send for Block {}

impl Staging {
    pub(crate) const fn new() -> Self {
        Self { small: Shelf::new(SMALL), large: Shelf::new(LARGE) }
    }

    const fn shelf(&self, bytes: usize) -> &Shelf {
        if bytes <= SMALL { &self.small } else { &self.large }
    }

    /// Frees every block that is not in use.
    ///
    /// # Safety
    /// The blocks must be of the live context `context`.
    pub(crate) unsafe fn free(&mut self, functions: &Functions, context: CUcontext) {
        let idle = [&mut self.small, &mut self.large]
            .map(|shelf| core::mem::take(&mut shelf.shelf.get_mut().unwrap_or_else(PoisonError::into_inner).idle));
        if idle.iter().all(VecDeque::is_empty) {
            return;
        }
        let free = || {
            for block in idle.into_iter().flatten() {
                // SAFETY: the block's event is live as long as the block; its context is current.
                match unsafe { raw::event::event_synchronize(functions, block.event) }
                    .or_else(|error| raw::context::ctx_synchronize(functions).map_err(|_| error))
                {
                    // SAFETY: the block was made in this context and is on no shelf any more, and the device is done
                    // with it.
                    Ok(()) => unsafe { block.free(functions) },
                    // What is not known to be done is leaked.
                    Err(error) => release::report(Err(error)),
                }
            }
            Ok(())
        };
        // SAFETY: the caller says that the context is live.
        release::report(unsafe { raw::context::with_current(functions, context, free) });
    }
}

impl Shelf {
    const fn new(bytes: usize) -> Self {
        Self { bytes, shelf: Mutex::new(Stock { idle: VecDeque::new(), made: 0 }) }
    }

    /// A block that the device is done with: one of the shelf's, or a new one. Only where there are many is one waited
    /// for, and then one of `stream`'s own: no other stream must hold this one up. The lock is never held over a driver
    /// call.
    fn take(&self, stream: &Stream) -> Result<Block> {
        let functions = stream.driver().functions();
        let (few, idle) = {
            let stock = self.lock();
            (stock.made < MOST, stock.idle.len())
        };
        // One block at a time is off the shelf, so that others see the rest.
        for _ in 0..idle {
            let Some(block) = self.lock().idle.pop_front() else { break };
            // SAFETY: the block's event is live as long as the block.
            match unsafe { raw::event::event_query(functions, block.event) } {
                Ok(true) => return Ok(block),
                // Gone with its context, which somebody reset.
                Err(error) if release::is_over(&error) => self.leak(block, &error),
                // The oldest stays the oldest; the others will not be done either.
                _ if few => {
                    self.lock().idle.push_front(block);
                    break;
                }
                _ => self.lock().idle.push_back(block),
            }
        }
        let mut stock = self.lock();
        let own = stock.idle.iter().position(|block| block.stream == stream.as_raw());
        let Some(block) = own.filter(|_| !few).and_then(|own| stock.idle.remove(own)) else {
            drop(stock);
            return self.make(stream);
        };
        drop(stock);
        // SAFETY: as above.
        match unsafe { raw::event::event_synchronize(functions, block.event) } {
            Ok(()) => Ok(block),
            Err(error) => {
                // It may be done one day.
                self.give_back(block);
                Err(error)
            }
        }
    }

    fn make(&self, stream: &Stream) -> Result<Block> {
        let functions = stream.driver().functions();
        // Counted first, so that no two threads make the last one.
        self.lock().made += 1;
        let block = stream.context().with_current(|| {
            // SAFETY: `with_current` makes the context current that is to own both.
            let event = unsafe { raw::event::event_create(functions, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING) }?;
            // SAFETY: as above.
            let memory = unsafe { raw::host::mem_host_alloc(functions, self.bytes) };
            match memory.map(|memory| NonNull::new(memory.cast::<u8>())) {
                Ok(Some(memory)) => Ok(Block { memory, event, stream: stream.as_raw() }),
                failed => {
                    // SAFETY: the event was just made, and nobody has seen it.
                    release::report(unsafe { raw::event::event_destroy(functions, event) });
                    Err(failed.err().unwrap_or(Error::HostMemory { bytes: self.bytes }))
                }
            }
        });
        block.map_err(|error| {
            self.forget_one();
            match error.code() {
                Some(cuda_sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::HostMemory { bytes: self.bytes },
                _ => error,
            }
        })
    }

    fn forget_one(&self) {
        let mut stock = self.lock();
        stock.made = stock.made.saturating_sub(1);
    }

    fn give_back(&self, block: Block) {
        self.lock().idle.push_back(block);
    }

    /// Gives a block up: the device may use it for ever.
    fn leak(&self, block: Block, why: &Error) {
        self.forget_one();
        // Its memory and its event are lost.
        let _ = block;
        release::report(Err(why.clone()));
    }

    /// Marks on `stream` that the device is done with `block`, and keeps it for the next copy.
    fn give_back_after(&self, mut block: Block, stream: &Stream) -> Result<()> {
        block.stream = stream.as_raw();
        // SAFETY: block and stream are live, and of one context.
        let marked = unsafe { raw::event::event_record(stream.driver().functions(), block.event, stream.as_raw()) };
        match marked.or_else(|_| order::wait_on_host(stream)) {
            Ok(()) => {
                self.give_back(block);
                Ok(())
            }
            Err(error) => {
                self.leak(block, &error);
                Err(error)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// # Safety
    /// The block's context must be current.
    unsafe fn free(self, functions: &Functions) {
        // SAFETY: the block owns both and ends here.
        unsafe {
            release::report(raw::host::mem_free_host(functions, self.memory.as_ptr().cast()));
            release::report(raw::event::event_destroy(functions, self.event));
        }
    }
}

/// Enqueues a copy of `source` to `destination`; the source has been read when this returns.
///
/// # Safety
/// `destination` must be valid for as many bytes in `stream`'s order, and `stream` not be capturing.
pub(crate) unsafe fn copy_from_host(stream: &Stream, destination: CUdeviceptr_v2, source: &[u8]) -> Result<()> {
    let shelf = stream.context().staging().shelf(source.len());
    let mut destination = destination;
    for part in source.chunks(shelf.bytes) {
        let block = shelf.take(stream)?;
        // SAFETY: the block is as large as the part or larger, nobody else has it, and the device is done with it.
        unsafe { block.memory.copy_from_nonoverlapping(NonNull::from(part).cast(), part.len()) };
        // SAFETY: the part of the destination is valid as the caller says, and the block is not touched before the
        // event or the wait below has seen the copy done.
        let copied = unsafe {
            raw::memory::memcpy_htod_async(
                stream.driver().functions(),
                destination,
                block.memory.as_ptr().cast(),
                part.len(),
                stream.as_raw(),
            )
        };
        copied.and(shelf.give_back_after(block, stream))?;
        destination = destination.wrapping_add(part.len() as u64);
    }
    Ok(())
}

/// Copies from `source`, and waits until `destination` holds it.
///
/// # Safety
/// `source` must be valid for as many bytes in `stream`'s order, and `stream` not be capturing.
pub(crate) unsafe fn copy_to_host(stream: &Stream, source: CUdeviceptr_v2, destination: &mut [u8]) -> Result<()> {
    let shelf = stream.context().staging().shelf(destination.len());
    let mut source = source;
    let mut under_way: VecDeque<(Block, &mut [u8])> = VecDeque::with_capacity(DEPTH);
    let mut failed = None;
    for part in destination.chunks_mut(shelf.bytes) {
        if under_way.len() == DEPTH
            && let Some((block, part)) = under_way.pop_front()
            && let Err(error) = shelf.unload(block, part, stream)
        {
            failed = Some(error);
            break;
        }
        let block = match shelf.take(stream) {
            Ok(block) => Block { stream: stream.as_raw(), ..block },
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        let functions = stream.driver().functions();
        // SAFETY: the part of the source is valid as the caller says; the block is as large as the part or larger,
        // nobody else has it, and it is not looked at before its event has seen the copy done.
        let marked = unsafe {
            raw::memory::memcpy_dtoh_async(functions, block.memory.as_ptr().cast(), source, part.len(), stream.as_raw())
                .and_then(|()| raw::event::event_record(functions, block.event, stream.as_raw()))
        };
        if let Err(error) = marked {
            // What became of the copy is not known before the stream is done.
            match order::wait_on_host(stream) {
                Ok(()) => shelf.give_back(block),
                Err(lost) => shelf.leak(block, &lost),
            }
            failed = Some(error);
            break;
        }
        source = source.wrapping_add(part.len() as u64);
        under_way.push_back((block, part));
    }
    for (block, part) in under_way {
        if let Err(error) = shelf.unload(block, part, stream) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

impl Shelf {
    /// Waits for the device to fill `block`, and copies it to `part`.
    fn unload(&self, block: Block, part: &mut [u8], stream: &Stream) -> Result<()> {
        // SAFETY: the block's event is live as long as the block.
        let waited = unsafe { raw::event::event_synchronize(stream.driver().functions(), block.event) };
        match waited.or_else(|_| order::wait_on_host(stream)) {
            Ok(()) => {
                let bytes = part.len();
                // SAFETY: the block is as large as the part or larger, and the device is done with it.
                unsafe { block.memory.copy_to_nonoverlapping(NonNull::from(part).cast(), bytes) };
                self.give_back(block);
                Ok(())
            }
            Err(error) => {
                self.leak(block, &error);
                Err(error)
            }
        }
    }
}
