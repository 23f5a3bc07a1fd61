//! The driver does not lock graphs.
use std::{sync::Arc, thread};

use cupool::Graph;

#[cfg(misuse)]
type Handle = Arc<Graph>;
#[cfg(not(misuse))]
type Handle = Box<Graph>;

pub fn f(graph: Handle) {
    thread::spawn(move || drop(graph)); //~ E0277
}
