//! A simulated CUDA driver, for testing CUDA memory code exhaustively and without a GPU.
//!
//! A [`Simulator`] is a driver of its own: devices, contexts, streams, events, pools and memory, behind the same
//! table of entry points that a real driver fills ([`Simulator::functions`]). Work that is enqueued on a stream runs
//! when somebody waits for it, in an order that CUDA allows and the seed chooses. Host memory is read and written
//! when an operation runs, device memory is poisoned when it is allocated and freed, and addresses of device memory
//! cannot be dereferenced by the host. Misuse is answered as the driver answers it, and noted in
//! [`Simulator::findings`]. Any call can be told to fail, or to order nothing.
//!
//! Findings do not depend on luck: every operation carries what it is ordered after, so that a use of memory is reported
//! which nothing orders with its allocation, its free or another use, even where it happened to run in time. The host's
//! own reads and writes of pinned memory are not seen, but for a source that was changed while a copy may still read
//! it; and how threads of the host hand work to each other is taken to be right.
//!
//! ```
//! use cupool_sim::{CUresult, Simulator, Symbol};
//!
//! let sim = Simulator::new();
//! let cuda = sim.functions();
//! sim.fail(Symbol::cuInit, 0, CUresult::CUDA_ERROR_SYSTEM_NOT_READY);
//! // SAFETY: cuInit takes no pointers.
//! assert_eq!(unsafe { (cuda.cuInit)(0) }, CUresult::CUDA_ERROR_SYSTEM_NOT_READY);
//! // SAFETY: as above.
//! assert_eq!(unsafe { (cuda.cuInit)(0) }, CUresult::CUDA_SUCCESS);
//! assert_eq!(sim.count(Symbol::cuInit), 2);
//! assert!(sim.findings().is_empty());
//! ```
//!
//! The crate is also a shared library, which a program loads as it loads `libcuda`: it exports every entry point by the
//! driver's name for it, and `cuGetProcAddress`. What the program calls it says through two functions that no driver has:
//!
//! ```c
//! void cupool_sim_log_start(void);                          /* forgets the calls so far, remembers those to come */
//! size_t cupool_sim_log_read(char *text, size_t bytes);     /* writes them, a line for each; answers how long that is */
//! ```
//!
//! A line is the name of the call, and ` elsewhere` after it if another thread made it than the one that reads.
//!
//! The defaults follow one NVIDIA H200 with driver 580 (CUDA 13.0).

mod args;
mod attributes;
mod backing;
mod capture;
mod checker;
mod context;
mod copy;
mod device;
mod entry;
mod event;
mod export;
mod faults;
mod fill;
mod free;
mod graph;
mod handle;
mod history;
mod host;
mod ipc;
mod kernel;
mod location;
mod log;
mod managed;
mod memory;
mod module;
mod options;
mod order;
mod past;
mod pointer;
mod pool;
mod pool_attributes;
mod pool_space;
mod rng;
mod scheduler;
mod shared;
mod signal;
mod simulator;
mod slots;
mod sources;
mod state;
mod stream;
mod table;
mod work;

pub use checker::{Finding, Misuse, Operation};
pub use cuda_sys::{CUresult, Functions, Symbol};
pub use kernel::KernelAccess;
pub use options::Builder;
pub use simulator::{Live, Simulator, functions};
