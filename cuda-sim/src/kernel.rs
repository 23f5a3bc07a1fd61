//! Kernels: functions of the test's, which say what they read and write.

use core::{ffi::c_void, fmt};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use cuda_sys::*;

use crate::{
    args::HostPointer,
    checker::Misuse,
    handle::Kind,
    history::Use,
    memory::{Allocation, Bytes},
    slots::{Callback, in_callback},
    state::{Answer, State},
    work::Work,
};

/// What is registered under a name.
pub(crate) struct Kernel {
    /// Sizes of the parameters.
    pub(crate) parameters: Vec<usize>,
    pub(crate) body: Box<dyn Fn(&mut KernelAccess<'_>) + Send + Sync>,
}

/// A launch: its parameters are taken during the call.
pub(crate) struct Launch {
    kernel: Arc<Kernel>,
    parameters: Vec<Vec<u8>>,
    /// The memory that parameters of 8 bytes point to.
    mentions: Vec<Mention>,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

/// Memory that a launch was given a pointer to: it is what a kernel means by the address, even if it has been freed
/// behind the launch and allocated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    Device(u32),
    Pinned(u64),
}

impl Launch {
    pub(crate) fn mentions(&self) -> &[Mention] {
        &self.mentions
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("grid", &self.grid).field("block", &self.block).finish_non_exhaustive()
    }
}

/// What a running kernel sees: its parameters, its shape, and memory by device pointer. A kernel must not call the
/// driver or the [`Simulator`](crate::Simulator).
pub struct KernelAccess<'a> {
    state: &'a mut State,
    launch: &'a Launch,
}

impl fmt::Debug for KernelAccess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.launch.fmt(f)
    }
}

impl KernelAccess<'_> {
    /// The bytes of a parameter; empty if there is none of that index.
    #[must_use]
    pub fn parameter(&self, index: usize) -> &[u8] {
        self.launch.parameters.get(index).map_or(&[], Vec::as_slice)
    }

    /// A parameter as a number; shorter ones are extended with zeros.
    #[must_use]
    pub fn parameter_u64(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(self.parameter(index)) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    }

    /// Blocks in the grid, by dimension.
    #[must_use]
    pub const fn grid(&self) -> [u32; 3] {
        self.launch.grid
    }

    /// Threads in a block, by dimension.
    #[must_use]
    pub const fn block(&self) -> [u32; 3] {
        self.launch.block
    }

    /// Bytes of dynamic shared memory for each block.
    #[must_use]
    pub const fn shared_bytes(&self) -> u32 {
        self.launch.shared_bytes
    }

    /// Reads memory. What is not allocated is reported, and reads as zero.
    pub fn read(&mut self, pointer: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let target = HostPointer(read.as_mut_ptr());
        match self.locate(pointer, bytes, Use::Read) {
            Some(Bytes::Device(address)) => {
                // SAFETY: the target has room for as many bytes.
                unsafe { self.state.backing.read(address, target, bytes as u64) };
            }
            Some(Bytes::Host(source)) => {
                // SAFETY: the range lies in memory of the simulator's, or pinned and promised by its user.
                unsafe { core::ptr::copy_nonoverlapping(source.0, target.0, bytes) };
            }
            None => {}
        }
        read
    }

    /// Writes memory. What is not allocated is reported, and left alone.
    pub fn write(&mut self, pointer: u64, bytes: &[u8]) {
        let source = HostPointer(bytes.as_ptr().cast_mut());
        match self.locate(pointer, bytes.len(), Use::Write) {
            Some(Bytes::Device(address)) => {
                // SAFETY: the source is as long.
                unsafe { self.state.backing.write(address, source, bytes.len() as u64) };
            }
            Some(Bytes::Host(target)) => {
                // SAFETY: as for `read`.
                unsafe { core::ptr::copy_nonoverlapping(source.0, target.0, bytes.len()) };
            }
            None => {}
        }
    }

    fn locate(&mut self, pointer: u64, bytes: usize, kind: Use) -> Option<Bytes> {
        if bytes == 0 {
            return None;
        }
        let length = bytes as u64;
        if let Some((host, range)) = self.state.host.pinned(pointer, length) {
            self.state.use_pinned(range, pointer, length, kind);
            if let (Use::Write, Some(point)) = (kind, self.state.running_point()) {
                self.state.note_written(range, pointer, length, point);
            }
            return Some(Bytes::Host(host));
        }
        let meant = self.launch.mentions.iter().find_map(|mention| match mention {
            Mention::Device(number) if self.state.memory.contains(*number, pointer, length) => Some(*number),
            _ => None,
        });
        let allocation = match meant.or_else(|| self.state.named_then(pointer, length)) {
            Some(number) => number,
            None => self.state.device_range(pointer, length).ok()?,
        };
        self.state.use_memory(allocation, pointer, length, kind);
        Some(self.state.bytes_at(allocation, pointer))
    }
}

impl State {
    fn mention(&self, value: &[u8]) -> Option<Mention> {
        let address = u64::from_le_bytes(value.try_into().ok()?);
        match self.host.pinned(address, 1) {
            Some((_, range)) => Some(Mention::Pinned(range)),
            None => self.memory.holding(address).map(|(number, _)| Mention::Device(number)),
        }
    }

    /// The allocation that an address lay in when the operation under way was enqueued.
    fn named_then(&self, address: u64, bytes: u64) -> Option<u32> {
        let now = self.running.as_ref()?.operation.id;
        let named =
            |allocation: &Allocation| allocation.made.id < now && allocation.freed.is_none_or(|freed| freed.id > now);
        let mut all = self.memory.all.iter();
        all.find(|(number, found)| named(found) && self.memory.contains(*number, address, bytes))
            .map(|(number, _)| number)
    }

    pub(crate) fn run_kernel(&mut self, launch: &Launch) {
        let body = AssertUnwindSafe(|| (launch.kernel.body)(&mut KernelAccess { state: self, launch }));
        if in_callback(Callback::Kernel, || catch_unwind(body)).is_err() {
            self.sticky = Some(CUresult::CUDA_ERROR_LAUNCH_FAILED);
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
pub(crate) fn launch(
    state: &mut State,
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let queue = state.queue_of(stream)?;
    let found = state.number(Kind::Function, function).and_then(|number| state.functions.get(number));
    let Some(kernel) = found.map(|found| Arc::clone(&found.kernel)) else {
        state.found(Misuse::UnknownHandle, function.addr() as u64, 0, None);
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    };
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let threads = block.iter().try_fold(1_u32, |threads, side| threads.checked_mul(*side));
    if grid.contains(&0) || block.contains(&0) || threads.is_none_or(|threads| threads > 1024) {
        return Err(invalid);
    }
    if !extra.is_null() {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    if parameters.is_null() && !kernel.parameters.is_empty() {
        return Err(invalid);
    }
    let mut taken = Vec::with_capacity(kernel.parameters.len());
    for (at, bytes) in kernel.parameters.iter().enumerate() {
        // SAFETY: the caller passes an array of as many pointers as the kernel has parameters, each to a value of
        // the parameter's size.
        let value = unsafe { parameters.add(at).read() };
        if value.is_null() {
            return Err(invalid);
        }
        // SAFETY: as above.
        taken.push(unsafe { core::slice::from_raw_parts(value.cast::<u8>(), *bytes) }.to_vec());
    }
    let mut mentions: Vec<Mention> = taken.iter().filter_map(|value| state.mention(value)).collect();
    mentions.dedup();
    let launch = Launch { kernel, parameters: taken, mentions, grid, block, shared_bytes };
    let launch = Arc::new(launch);
    if let Some(point) = state.submit(queue, Work::Launch(Arc::clone(&launch)))? {
        for mention in launch.mentions() {
            // What the kernel does with it, it has yet to tell.
            if let Mention::Pinned(range) = mention {
                state.note_written(*range, 0, u64::MAX, point);
            }
        }
    }
    Ok(())
}
