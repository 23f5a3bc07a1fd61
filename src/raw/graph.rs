//! Stream capture and graphs.
//!
//! Making and destroying graphs may take memory from the device or give it back, which somebody's capture elsewhere in
//! the process would not survive: those calls are made in the relaxed mode.

use cuda_sys::{CUgraph, CUgraphExec, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, Functions, Symbol};

use super::{call, out, stream::relaxed};
use crate::{Error, Result};

/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_begin_capture(
    functions: &Functions,
    stream: CUstream,
    mode: CUstreamCaptureMode,
) -> Result<()> {
    // What could not be ended, and its graph destroyed, is not begun.
    for (is_there, symbol) in [
        (functions.cuStreamEndCapture.is_some(), Symbol::cuStreamEndCapture),
        (functions.cuGraphDestroy.is_some(), Symbol::cuGraphDestroy),
    ] {
        if !is_there {
            return Err(Error::Unsupported(symbol));
        }
    }
    call!(functions, cuStreamBeginCapture?(stream, mode))
}

/// Ends the capture, and answers its graph: null if there is none, which there may be also after an error.
///
/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_end_capture(functions: &Functions, stream: CUstream) -> (Result<()>, CUgraph) {
    let mut graph = core::ptr::null_mut();
    let ended = call!(functions, cuStreamEndCapture?(stream, &raw mut graph));
    (ended, graph)
}

/// The state of the capture, and the number that tells it from all others while it is active.
///
/// # Safety
/// `stream` must be live.
pub(crate) unsafe fn stream_get_capture_info(
    functions: &Functions,
    stream: CUstream,
) -> Result<(CUstreamCaptureStatus, u64)> {
    let mut id = 0;
    // SAFETY: the driver writes the status when it answers success, and the number if there is one.
    let status = unsafe { out(|status| call!(functions, cuStreamGetCaptureInfo?(stream, status, &raw mut id))) };
    Ok((status?, id))
}

/// # Safety
/// `graph` must be live, and nobody else use it meanwhile.
pub(crate) unsafe fn graph_instantiate(functions: &Functions, graph: CUgraph, flags: u64) -> Result<CUgraphExec> {
    // What could not be destroyed again is not made.
    if functions.cuGraphExecDestroy.is_none() {
        return Err(Error::Unsupported(Symbol::cuGraphExecDestroy));
    }
    relaxed(functions, || {
        // SAFETY: the driver writes the handle when it answers success.
        unsafe { out(|exec| call!(functions, cuGraphInstantiateWithFlags?(exec, graph, flags))) }
    })
}

/// # Safety
/// `exec` and `stream` must be live, nobody else may use `exec` meanwhile, and what the graph does must be in order.
pub(crate) unsafe fn graph_launch(functions: &Functions, exec: CUgraphExec, stream: CUstream) -> Result<()> {
    call!(functions, cuGraphLaunch?(exec, stream))
}

/// # Safety
/// `graph` must be live, not null, and not be used afterwards.
pub(crate) unsafe fn graph_destroy(functions: &Functions, graph: CUgraph) -> Result<()> {
    relaxed(functions, || call!(functions, cuGraphDestroy?(graph)))
}

/// # Safety
/// `exec` must be live and not be used afterwards. It may still run.
pub(crate) unsafe fn graph_exec_destroy(functions: &Functions, exec: CUgraphExec) -> Result<()> {
    relaxed(functions, || call!(functions, cuGraphExecDestroy?(exec)))
}
