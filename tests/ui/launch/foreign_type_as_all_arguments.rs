//! The driver is given one address for each argument, so only this crate says what can be all of them.
use cupool::launch::Arguments;

pub struct All(u32, u32);

#[cfg(misuse)]
impl Arguments for All {} //~ E0277

pub fn f(all: &All) -> impl Arguments + use<> {
    (all.0, all.1)
}
