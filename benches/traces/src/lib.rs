//! Allocation traces: what a program asked of its allocator, in the order in which it asked.
//!
//! Five come along ([`Trace::recorded`]); `convert-trace` makes more from the logs of RMM and the memory snapshots of
//! PyTorch. The file format is described in [`Trace::write`].

mod compact;
mod error;
mod recorded;
mod recording;
mod trace;

pub mod csv;
pub mod rmm;
pub mod torch;

pub use error::{Broken, Error};
pub use trace::{Event, Trace};
