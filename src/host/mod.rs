//! Page-locked host memory: owned, for copies that go on after the call; and registered in place.

mod parked;
mod pinned;
mod registered;

pub(crate) use parked::{Memory, Parked};
pub use pinned::PinnedBuffer;
pub use registered::Registered;
