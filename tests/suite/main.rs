//! What the crate promises, stated as tests: on the simulated driver, or on the real one with
//! `CUPOOL_TEST_DRIVER=real`. Tests named after a case start with its letter and number.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod committed;
mod crash;
mod fixture;
mod gate;
mod registered;
mod scenario;

mod a_loading;
mod a_pools_supported;
mod aliases;
mod attacks;
mod b_contexts;
mod beside_captures;
mod buffers;
mod c_errors;
mod c_release;
mod call_table;
mod calls;
mod conversions;
mod copies;
mod d_order;
mod default_streams;
mod devices;
mod direct;
#[cfg(feature = "dlpack")]
mod dlpack_export;
#[cfg(feature = "dlpack")]
mod dlpack_import;
mod errors;
mod f_guards;
mod f_out_of_memory;
mod f_pool_ends;
mod f_pools;
mod f_pressure;
mod faults;
mod fences;
mod fills;
mod foreign;
mod g_capture;
mod graphs;
mod graphs_kept;
mod h_sizes;
mod handles;
mod host;
mod i_access;
mod i_drop_order;
mod ipc;
mod ipc_imports;
mod j_events;
#[cfg(feature = "launch")]
mod launch;
mod loans;
mod managed;
mod missing_entries;
mod order_lost;
mod peers;
mod placement;
mod pointers;
mod pool_kinds;
mod pool_priming;
mod pool_quirks;
mod pool_refusals;
mod quiet;
mod sizes;
mod staging;
mod streams;
mod surface;
mod threads;
mod traits;
mod versions;
mod views;
