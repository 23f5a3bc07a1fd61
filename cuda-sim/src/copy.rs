//! Copies: what is read and written when.

use core::ffi::c_void;

use cuda_sys::*;

use crate::{
    args::{HostPointer, In, Out},
    history::Use,
    memory::{Bytes, DEVICE_BASE, Home},
    scheduler,
    slots::Call,
    state::{Answer, State},
    work::{Place, QueueId, Work},
};

/// Pageable sources up to this size are taken during the call; for larger ones the call waits.
const STAGED: usize = 1 << 20;
/// Batched copies that promise to take a pageable source during the call do so below this size only.
const BATCH_STAGED: usize = 128 << 10;

/// When the source may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// As the plain asynchronous calls do it.
    Plain,
    Batched(CUmemcpySrcAccessOrder),
}

const fn is_pageable(place: &Place) -> bool {
    matches!(place, Place::Host { range: None, .. })
}

impl State {
    /// What lies at an address of the unified address space.
    fn place(&mut self, address: u64, bytes: usize) -> Result<Place, CUresult> {
        if address >= DEVICE_BASE || self.memory.holding(address).is_some() {
            return Ok(Place::Device { address, allocation: self.device_range(address, bytes as u64)? });
        }
        let pointer = HostPointer(core::ptr::with_exposed_provenance_mut(address as usize));
        self.host_place(pointer, bytes)
    }

    /// Host memory, pinned or not. What begins as pinned must be so throughout; what comes later is not looked at.
    fn host_place(&self, pointer: HostPointer, bytes: usize) -> Result<Place, CUresult> {
        let range = self.host.pinned(pointer.address(), bytes as u64).map(|(_, range)| range);
        if range.is_none() && self.host.pinned(pointer.address(), 1).is_some() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(Place::Host { pointer, range })
    }

    /// A place for a call that names host memory as such: managed memory may be meant.
    fn place_of_host(&mut self, pointer: HostPointer, bytes: usize) -> Result<Place, CUresult> {
        let address = pointer.address();
        match self.memory.holding(address) {
            Some(_) => Ok(Place::Device { address, allocation: self.device_range(address, bytes as u64)? }),
            None => self.host_place(pointer, bytes),
        }
    }

    /// A place for a call that names device memory as such: pinned memory may be meant.
    fn place_of_device(&mut self, address: u64, bytes: usize) -> Result<Place, CUresult> {
        match self.host.pinned(address, bytes as u64) {
            Some((pointer, range)) => Ok(Place::Host { pointer, range: Some(range) }),
            None => {
                let allocation = self.device_range(address, bytes as u64)?;
                // Pinned memory of a pool on the host is not device memory to the calls that say which side is which.
                if self.is_pinned_on_host(allocation) {
                    return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
                }
                Ok(Place::Device { address, allocation })
            }
        }
    }

    fn is_pinned_on_host(&self, allocation: u32) -> bool {
        let found = self.memory.all.get(allocation).filter(|found| found.block.is_some());
        let Some(Home::Pool(pool)) = found.map(|found| found.home) else { return false };
        self.pools.get(pool).is_some_and(|pool| pool.kind == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED)
    }

    pub(crate) fn run_copy(&mut self, target: &Place, source: &Place, bytes: usize) {
        self.use_place(source, bytes, Use::Read);
        self.use_place(target, bytes, Use::Write);
        self.clock += bytes as u64 / 100;
        let Some(target) = self.bytes_of(target) else { return };
        let length = bytes as u64;
        if let Place::Staged(taken) = source {
            let taken = HostPointer(taken.as_ptr().cast_mut());
            // SAFETY: as many bytes were taken as are copied, and they are only read.
            unsafe { self.copy_bytes(target, Bytes::Host(taken), length) };
        } else if let Some(source) = self.bytes_of(source) {
            // SAFETY: host memory of the simulator's is kept until pending work is done. Of other host memory the
            // caller of an asynchronous copy promises that it stays valid until the copy has run.
            unsafe { self.copy_bytes(target, source, length) };
        }
    }

    fn use_place(&mut self, place: &Place, bytes: usize, kind: Use) {
        match place {
            Place::Device { address, allocation } => self.use_memory(*allocation, *address, bytes as u64, kind),
            Place::Host { pointer, range: Some(range) } => {
                self.use_pinned(*range, pointer.address(), bytes as u64, kind);
            }
            Place::Host { range: None, .. } | Place::Staged(_) => {}
        }
    }

    fn bytes_of(&self, place: &Place) -> Option<Bytes> {
        match place {
            Place::Device { address, allocation } => Some(self.bytes_at(*allocation, *address)),
            Place::Host { pointer, .. } => Some(Bytes::Host(*pointer)),
            Place::Staged(_) => None,
        }
    }

    /// Copies.
    ///
    /// # Safety
    /// Host memory must be valid for that many bytes.
    unsafe fn copy_bytes(&mut self, target: Bytes, source: Bytes, bytes: u64) {
        // SAFETY: the caller vouches for host memory.
        unsafe {
            match (target, source) {
                (Bytes::Device(target), Bytes::Device(source)) => self.backing.copy(target, source, bytes),
                (Bytes::Device(target), Bytes::Host(source)) => self.backing.write(target, source, bytes),
                (Bytes::Host(target), Bytes::Device(source)) => self.backing.read(source, target, bytes),
                (Bytes::Host(target), Bytes::Host(source)) => core::ptr::copy(source.0, target.0, bytes as usize),
            }
        }
    }
}

/// Enqueues a copy, and waits where the driver does.
fn copy(call: &mut Call, target: Place, mut source: Place, bytes: usize, queue: QueueId, order: Order) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    let capturing = call.captures_on(queue)?.is_some();
    let late = call.options.pageable_async || capturing;
    let mut wait = is_pageable(&target) && !late;
    let (limit, waits_above) = match order {
        Order::Plain => (STAGED, true),
        Order::Batched(CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) => (0, true),
        Order::Batched(_) => (BATCH_STAGED - 1, false),
    };
    if let Place::Host { pointer, range: None } = source
        && !late
    {
        if bytes <= limit {
            // SAFETY: the caller passed a source of that many bytes.
            source = Place::Staged(unsafe { core::slice::from_raw_parts(pointer.0, bytes) }.to_vec());
        } else {
            wait |= waits_above;
        }
    } else if order == Order::Batched(CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) {
        wait |= !capturing && matches!(source, Place::Host { .. });
    }
    let watched = match source {
        Place::Host { pointer, range: Some(range) } if !capturing && call.options.check_order => Some((range, pointer)),
        _ => None,
    };
    if let Some((range, pointer)) = watched {
        call.check_source(range, pointer.address(), bytes as u64);
    }
    let written = match target {
        Place::Host { pointer, range: Some(range) } => Some((range, pointer.address())),
        _ => None,
    };
    let submitted = call.submit(queue, Work::Copy { target, source, bytes })?;
    if let (Some((range, pointer)), Some(point)) = (watched, submitted) {
        call.remember_source(range, pointer, bytes as u64, point);
    }
    if let (Some((range, start)), Some(point)) = (written, submitted) {
        call.note_written(range, start, bytes as u64, point);
    }
    match submitted {
        Some(point) if wait => {
            let mark = call.queues.mark(queue);
            scheduler::wait(call, point)?;
            call.host_saw(&mark);
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(crate) fn host_to_device(
    call: &mut Call,
    target: CUdeviceptr_v2,
    source: HostPointer,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    let queue = call.queue_of(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = call.place_of_device(target, bytes)?;
    let source = call.place_of_host(source, bytes)?;
    copy(call, target, source, bytes, queue, Order::Plain)
}

pub(crate) fn device_to_host(
    call: &mut Call,
    target: HostPointer,
    source: CUdeviceptr_v2,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    let queue = call.queue_of(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = call.place_of_host(target, bytes)?;
    let source = call.place_of_device(source, bytes)?;
    copy(call, target, source, bytes, queue, Order::Plain)
}

pub(crate) fn device_to_device(
    call: &mut Call,
    target: CUdeviceptr_v2,
    source: CUdeviceptr_v2,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    let queue = call.queue_of(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = call.place_of_device(target, bytes)?;
    let source = call.place_of_device(source, bytes)?;
    copy(call, target, source, bytes, queue, Order::Plain)
}

pub(crate) fn any(
    call: &mut Call,
    target: CUdeviceptr_v2,
    source: CUdeviceptr_v2,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    let queue = call.queue_of(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let target = call.place(target, bytes)?;
    let source = call.place(source, bytes)?;
    copy(call, target, source, bytes, queue, Order::Plain)
}

pub(crate) fn peer(
    call: &mut Call,
    target: CUdeviceptr_v2,
    to: CUcontext,
    source: CUdeviceptr_v2,
    from: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    call.context_device(to)?;
    call.context_device(from)?;
    device_to_device(call, target, source, bytes, stream)
}

#[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
pub(crate) fn batch(
    call: &mut Call,
    targets: In<CUdeviceptr_v2>,
    sources: In<CUdeviceptr_v2>,
    sizes: In<usize>,
    count: usize,
    attributes: In<CUmemcpyAttributes_v1>,
    starts: In<usize>,
    attribute_count: usize,
    failed: Out<usize>,
    stream: CUstream,
) -> Answer {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    failed.set_if_wanted(usize::MAX);
    if count == 0 || attribute_count == 0 || attribute_count > count || stream.addr() <= 1 || starts.at(0)? != 0 {
        return Err(invalid);
    }
    let queue = call.queue_of(stream)?;
    let mut which = 0;
    let mut copies = Vec::new();
    for at in 0..count {
        while which + 1 < attribute_count && starts.at(which + 1)? <= at {
            which += 1;
        }
        let order = attributes.at(which)?.srcAccessOrder;
        let (target, source, bytes) = (targets.at(at)?, sources.at(at)?, sizes.at(at)?);
        let places = match (call.place(target, bytes), call.place(source, bytes)) {
            (Ok(target), Ok(source)) if bytes > 0 && matches!(order.0, 1..=3) => Some((target, source)),
            _ => None,
        };
        let Some((target, source)) = places else {
            failed.set_if_wanted(at);
            return Err(invalid);
        };
        copies.push((target, source, bytes, order));
    }
    for (target, source, bytes, order) in copies {
        copy(call, target, source, bytes, queue, Order::Batched(order))?;
    }
    Ok(())
}

/// The address behind a `void *` of host memory, for callers that want it as a number.
pub(crate) fn expose(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}
