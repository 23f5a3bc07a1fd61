//! cupool: `Buffer<u8, &Stream>` from a pool as `MemPool::new` makes it.

use cupool::{Buffer, Driver, MemPool, Stream};

use crate::peer::{Allocate, Outcome};

pub(crate) struct Ours {
    // From `Box::leak`: buffers borrow the streams that they are kept beside.
    streams: Vec<&'static Stream>,
    pool: MemPool,
}

impl Ours {
    pub(crate) fn open(streams: u32) -> Outcome<Self> {
        let device = Driver::load()?.device(0)?;
        let context = device.primary_context()?;
        let mut ours = Self { streams: Vec::new(), pool: MemPool::new(&device)? };
        for _ in 0..streams {
            ours.streams.push(Box::leak(Box::new(Stream::new(&context)?)));
        }
        Ok(ours)
    }
}

impl Allocate for Ours {
    type Block = Buffer<u8, &'static Stream>;

    fn attach(&self) -> Outcome<()> {
        Ok(())
    }

    #[inline]
    fn allocate(&self, stream: u32, bytes: u64) -> Outcome<Self::Block> {
        Ok(self.pool.alloc(bytes as usize, self.streams[stream as usize])?)
    }

    #[inline]
    fn synchronize(&self, stream: u32) -> Outcome<()> {
        Ok(self.streams[stream as usize].synchronize()?)
    }

    fn streams(&self) -> u32 {
        self.streams.len() as u32
    }

    fn trim(&self) -> Outcome<()> {
        self.pool.trim_to(0)?;
        Ok(())
    }

    fn reserved(&self) -> Outcome<u64> {
        Ok(self.pool.usage()?.reserved)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        for stream in self.streams.drain(..) {
            // SAFETY: it came from `Box::leak`, and `Timed` ends its blocks, which alone borrow it, before its allocator.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(stream).cast_mut()) });
        }
    }
}
