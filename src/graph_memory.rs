//! Memory that graphs allocate: a store of each device's own, which no pool's figures count and no pool's trim reaches.
//!
//! Every call here is made in the relaxed capture mode, so that it cannot end a capture elsewhere in the process.

use cuda_sys::CUgraphMem_attribute as Attribute;

use crate::{Device, Result, raw};

/// What the memory of a device's graphs is doing, in bytes: that of allocations which were captured into graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMemoryUsage {
    /// What graphs need at present. Drivers such as 580.159 count everything here that they hold, also behind graphs that are
    /// gone, until it is [trimmed](Device::trim_graph_memory).
    pub used: u64,
    /// The most that was needed since the last [`reset_graph_memory_peaks`](Device::reset_graph_memory_peaks).
    pub used_high: u64,
    /// Held for graphs: what they need, and what is kept for their next launch.
    pub reserved: u64,
    /// The most that was held since the last [`reset_graph_memory_peaks`](Device::reset_graph_memory_peaks).
    pub reserved_high: u64,
}

impl Device {
    /// What the memory of the device's graphs is doing. The driver keeps it apart from every pool:
    /// [`MemPool::usage`](crate::MemPool::usage) and [`trim_to`](crate::MemPool::trim_to) know nothing of it. The four
    /// figures are read one after the other; other threads may come between.
    ///
    /// Since CUDA 11.4.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) from an older driver, or whatever the driver answers.
    #[doc(alias = "cuDeviceGetGraphMemAttribute")]
    #[doc(alias = "cudaDeviceGetGraphMemAttribute")]
    pub fn graph_memory_usage(self) -> Result<GraphMemoryUsage> {
        self.relaxed(|| {
            Ok(GraphMemoryUsage {
                used: self.graph_memory(Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?,
                used_high: self.graph_memory(Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)?,
                reserved: self.graph_memory(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?,
                reserved_high: self.graph_memory(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)?,
            })
        })
    }

    /// Lets the two high-water marks of [`graph_memory_usage`](Self::graph_memory_usage) start anew from what is needed
    /// and held now. The device is the whole process's, and so are the marks.
    ///
    /// Since CUDA 11.4.
    ///
    /// # Errors
    /// As [`graph_memory_usage`](Self::graph_memory_usage).
    #[doc(alias = "cuDeviceSetGraphMemAttribute")]
    #[doc(alias = "cudaDeviceSetGraphMemAttribute")]
    pub fn reset_graph_memory_peaks(self) -> Result<()> {
        let functions = self.driver().functions();
        self.relaxed(|| {
            [Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH]
                .into_iter()
                .try_for_each(|peak| {
                    raw::graph_memory::device_reset_graph_mem_attribute(functions, self.as_raw(), peak)
                })
        })
    }

    /// Gives the memory that no graph needs at present back to the system, and says how many bytes that were. A graph
    /// that is launched again gets its memory anew, which makes that launch slower. Memory of a graph that is running, or
    /// that a launch has left allocated, stays; so does what a launch still has to free: synchronise first.
    ///
    /// Since CUDA 11.4.
    ///
    /// # Errors
    /// As [`graph_memory_usage`](Self::graph_memory_usage).
    #[doc(alias = "cuDeviceGraphMemTrim")]
    #[doc(alias = "cudaDeviceGraphMemTrim")]
    pub fn trim_graph_memory(self) -> Result<u64> {
        self.relaxed(|| {
            let before = self.graph_memory(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
            raw::graph_memory::device_graph_mem_trim(self.driver().functions(), self.as_raw())?;
            let after = self.graph_memory(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
            // Another thread may have launched a graph meanwhile.
            Ok(before.saturating_sub(after))
        })
    }

    fn graph_memory(self, attribute: Attribute) -> Result<u64> {
        raw::graph_memory::device_get_graph_mem_attribute(self.driver().functions(), self.as_raw(), attribute)
    }

    fn relaxed<R>(self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        raw::stream::relaxed(self.driver().functions(), work)
    }
}
