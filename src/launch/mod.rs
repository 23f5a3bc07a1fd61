//! Loading kernels and launching them (feature `launch`).
//!
//! Launching is `unsafe`: what a kernel does with its arguments, nobody can check. What can be done is done: buffers
//! that are arguments stay borrowed until the launch is enqueued, and those at home on other streams are fenced on
//! both sides, as copies are.

mod argument;
mod module;

pub use argument::{Argument, Arguments, ByValue};
pub use module::{Function, Module};

/// How many threads a launch has, and how much shared memory each block gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory for each block.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// One dimension, of at least one thread for each of `elements`, in blocks of `block` threads.
    #[must_use]
    pub const fn for_elements(elements: u32, block: u32) -> Self {
        let (elements, block) = (if elements == 0 { 1 } else { elements }, if block == 0 { 1 } else { block });
        Self { grid: [elements.div_ceil(block), 1, 1], block: [block, 1, 1], shared_bytes: 0 }
    }
}
