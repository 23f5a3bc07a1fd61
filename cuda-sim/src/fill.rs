//! Fills.

use cuda_sys::*;

use crate::{
    history::Use,
    memory::{Bytes, Home},
    state::{Answer, State},
    work::Work,
};

fn fill(state: &mut State, target: u64, pattern: u32, width: u8, count: usize, stream: CUstream) -> Answer {
    let queue = state.queue_of(stream)?;
    if count == 0 {
        return Ok(());
    }
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let bytes = (count as u64).checked_mul(width.into()).ok_or(invalid)?;
    if !target.is_multiple_of(width.into()) {
        return Err(invalid);
    }
    if let Some((pointer, range)) = state.host.pinned(target, bytes) {
        let point = state.submit(queue, Work::FillHost { pointer, range, bytes, pattern, width })?;
        if let Some(point) = point {
            state.note_written(range, target, bytes, point);
        }
        return Ok(());
    }
    let allocation = state.device_range(target, bytes)?;
    let device = state.queue_context(queue)?.device;
    if !state.reaches(allocation, device) {
        return Err(invalid);
    }
    state.submit(queue, Work::Fill { address: target, allocation, bytes, pattern, width })?;
    Ok(())
}

impl State {
    /// Whether work on a device may use the allocation.
    pub(crate) fn reaches(&self, allocation: u32, device: usize) -> bool {
        match self.memory.all.get(allocation) {
            Some(allocation) => match allocation.home {
                Home::Pool(pool) | Home::Imported(pool) => self.pools.get(pool).is_none_or(|pool| pool.reaches(device)),
                Home::Linear | Home::Graph => allocation.device == device || self.options.peer_access,
                Home::Managed => true,
            },
            None => false,
        }
    }

    pub(crate) fn run_fill(&mut self, address: u64, allocation: u32, bytes: u64, pattern: u32, width: u8) {
        self.use_memory(allocation, address, bytes, Use::Write);
        self.clock += bytes / 1000;
        match self.bytes_at(allocation, address) {
            Bytes::Device(address) => self.backing.fill(address, bytes, pattern, width),
            Bytes::Host(pointer) => fill_host(pointer.0, bytes as usize, pattern, width),
        }
    }
}

/// Fills host memory of the simulator's, or pinned memory whose user has promised it until this has run.
pub(crate) fn fill_host(target: *mut u8, bytes: usize, pattern: u32, width: u8) {
    let unit = pattern.to_le_bytes();
    for (at, byte) in unit.iter().cycle().take(bytes.min(usize::from(width))).enumerate() {
        let mut at = at;
        while at < bytes {
            // SAFETY: the range was found in memory of that length when the fill was enqueued, and is kept until it
            // has run.
            unsafe { target.add(at).write(*byte) };
            at += usize::from(width);
        }
    }
}

pub(crate) fn bytes(state: &mut State, target: CUdeviceptr_v2, value: u8, count: usize, stream: CUstream) -> Answer {
    fill(state, target, value.into(), 1, count, stream)
}

pub(crate) fn halves(state: &mut State, target: CUdeviceptr_v2, value: u16, count: usize, stream: CUstream) -> Answer {
    fill(state, target, value.into(), 2, count, stream)
}

pub(crate) fn words(state: &mut State, target: CUdeviceptr_v2, value: u32, count: usize, stream: CUstream) -> Answer {
    fill(state, target, value, 4, count, stream)
}
