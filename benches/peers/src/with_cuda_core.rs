//! NVIDIA's crate cuda-core: `DeviceBuffer<u8>` from the device's default pool. Its drop hands the memory to a thread of
//! its own, which frees it.

use std::sync::Arc;

use cuda_core::{Context, DeviceBuffer, Stream};

use crate::{
    peer::{Allocate, Outcome},
    with_cudarc::DefaultPool,
};

pub(crate) struct CudaCore {
    streams: Vec<Arc<Stream>>,
    context: Arc<Context>,
    pool: DefaultPool,
}

impl CudaCore {
    pub(crate) fn open(streams: u32) -> Outcome<Self> {
        let context = Context::new(0).map_err(failed)?;
        let streams = (0..streams).map(|_| context.new_stream().map_err(failed)).collect::<Result<_, _>>()?;
        Ok(Self { streams, context, pool: DefaultPool::of_device()? })
    }
}

impl Allocate for CudaCore {
    type Block = DeviceBuffer<u8>;

    fn attach(&self) -> Outcome<()> {
        self.context.bind_to_thread().map_err(failed)
    }

    #[inline]
    fn allocate(&self, stream: u32, bytes: u64) -> Outcome<Self::Block> {
        // SAFETY: nobody reads the memory.
        unsafe { DeviceBuffer::uninitialized_async(&self.streams[stream as usize], bytes as usize) }.map_err(failed)
    }

    #[inline]
    fn synchronize(&self, stream: u32) -> Outcome<()> {
        self.streams[stream as usize].synchronize().map_err(failed)
    }

    fn streams(&self) -> u32 {
        self.streams.len() as u32
    }

    fn trim(&self) -> Outcome<()> {
        self.pool.trim()
    }

    fn reserved(&self) -> Outcome<u64> {
        self.pool.reserved()
    }
}

pub(crate) fn failed(error: cuda_core::DriverError) -> Box<dyn std::error::Error + Send + Sync> {
    format!("cuda-core: {error:?}").into()
}
