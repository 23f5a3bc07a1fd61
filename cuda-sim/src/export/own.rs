//! What the shared library exports and no driver has: how a program that has loaded it in `libcuda`'s place finds out what
//! was asked of it.

use core::{ffi::c_char, ptr, sync::atomic::Ordering};

use crate::{simulator, slots};

/// How many times `cuInit` was called in this copy of the library.
#[unsafe(no_mangle)]
extern "C" fn cupool_sim_inits() -> u64 {
    super::INITS.load(Ordering::Relaxed)
}

/// Forgets the calls so far, and remembers those to come.
#[unsafe(no_mangle)]
extern "C" fn cupool_sim_log_start() {
    simulator::shared().start_log();
}

/// Writes the calls since `cupool_sim_log_start`, in order: a line for each, with its name and, if another thread has made
/// it than the one that asks now, ` elsewhere` after that. Asking for an entry point's address is no call.
///
/// Answers how many bytes that is. No more than `bytes` of them are written, and no zero after them.
///
/// # Safety
/// `text` must be valid for writes of `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cupool_sim_log_read(text: *mut c_char, bytes: usize) -> usize {
    let mut lines = String::new();
    for call in simulator::shared().logged() {
        lines.push_str(call.symbol.row());
        lines.push_str(if call.thread == slots::thread() { "\n" } else { " elsewhere\n" });
    }
    // SAFETY: as much as fits, says the caller; and the string is not what the caller writes to.
    unsafe { ptr::copy_nonoverlapping(lines.as_ptr().cast(), text, lines.len().min(bytes)) };
    lines.len()
}
