//! Sharing pools, pointers and events. What is exported can be imported in the same process, events excepted, and on
//! Linux in any other: the bytes of a pool that can be exported lie in memory that both then have.
//!
//! What another process does is not in the books of this one: order is checked within a simulator.

use core::ffi::{c_ulonglong, c_void};
use std::sync::Arc;

use cuda_sys::*;

use crate::{
    args::Out,
    checker::Operation,
    handle::Kind,
    history::History,
    managed::Placement,
    memory::{Allocation, Home},
    pool::{Origin, Owner, at_device},
    shared::{self, SharedMemory, pack, words},
    signal::Signal,
    state::{Answer, State},
};

/// In place of a pool's serial number: the file is an event's.
const EVENT: u64 = u64::MAX;

impl State {
    /// Tells this simulator from all others, of all processes.
    fn identity(&self) -> u64 {
        shared::process() ^ ((self.slot as u64) << 32 | self.epoch as u64).rotate_left(8)
    }

    /// What an event that other processes can have is known by.
    pub(crate) fn new_signal(&mut self) -> Option<Arc<Signal>> {
        let serial = self.serial();
        Signal::new([self.identity(), EVENT, serial, 0, 0, 0, 0]).map(Arc::new)
    }

    /// Puts the bytes of a pool that can be exported where other processes can have them.
    pub(crate) fn share_pool(&mut self, number: u32) -> Answer {
        let identity = self.identity();
        let Some(pool) = self.pools.get_mut(number).filter(|pool| pool.handle_types & FILE.0 != 0) else {
            return Ok(());
        };
        let (base, bytes) = pool.space.as_ref().map_or((0, 0), |space| (space.base(), space.bytes));
        let header = [
            identity,
            pool.serial,
            base,
            bytes,
            pool.kind.0.into(),
            u64::from(pool.location.type_.0),
            u64::from(pool.location.id.cast_unsigned()),
        ];
        // Memory of the host stays in this process; its file only says which pool it is.
        let memory = SharedMemory::new(header, bytes).ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
        pool.window = Some((base, base));
        self.backing.open_window(base, bytes, memory);
        Ok(())
    }
}

pub(crate) fn export_event(state: &mut State, handle: Out<CUipcEventHandle_v1>, event: CUevent) -> Answer {
    handle.required()?;
    state.unsafe_in_capture()?;
    let signal = state.export_signal(event)?;
    let bytes =
        pack([state.identity(), u64::from(std::process::id()), u64::from(signal.number()), signal.serial(), 0, 0, 0]);
    handle.set(CUipcEventHandle_v1 { reserved: bytes.map(|byte| byte as core::ffi::c_char) })
}

/// The driver refuses to open an event in the process that exported it.
pub(crate) fn open_event(state: &mut State, event: Out<CUevent>, handle: CUipcEventHandle_v1) -> Answer {
    event.required()?;
    let context = state.current_context()?;
    state.unsafe_in_capture()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let [identity, process, file, serial, ..] = words(&handle.reserved.map(|byte| byte as u8)).ok_or(invalid)?;
    if identity == state.identity() {
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    let numbers = u32::try_from(process).ok().zip(u32::try_from(file).ok());
    let (signal, header) = numbers.and_then(|(process, file)| Signal::of_process(process, file)).ok_or(invalid)?;
    // The other process may have closed it, and opened something else.
    if !header.starts_with(&[identity, EVENT, serial]) {
        return Err(invalid);
    }
    let number = state.add_opened_event(context, Arc::new(signal));
    event.set(state.handle(Kind::Event, number))
}

const FILE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const FABRIC: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;

pub(crate) fn export_pool(
    state: &mut State,
    handle: Out<c_void>,
    pool: CUmemoryPool,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    handle.required()?;
    state.unsafe_in_capture()?;
    let identity = state.identity();
    let (_, pool) = state.pool(pool)?;
    if flags != 0 || kind.0 == 0 || pool.handle_types & kind.0 != kind.0 || matches!(pool.owner, Owner::Imported(_)) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let (serial, window) = (pool.serial, pool.window);
    pool.exported = true;
    match kind {
        FILE => {
            let memory = window.and_then(|(base, _)| state.backing.window(base));
            let file = memory.and_then(SharedMemory::descriptor).ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
            handle.cast::<core::ffi::c_int>().set(file)
        }
        FABRIC if state.options.fabric => handle.cast().set(pack([identity, serial, 0, 0, 0, 0, 0])),
        _ => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    }
}

pub(crate) fn import_pool(
    state: &mut State,
    pool: Out<CUmemoryPool>,
    handle: *mut c_void,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    pool.required()?;
    state.pools_supported()?;
    state.unsafe_in_capture()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    if flags != 0 {
        return Err(invalid);
    }
    let (memory, header) = match kind {
        FILE => {
            // The descriptor itself is passed, as a pointer.
            let file = core::ffi::c_int::try_from(handle.addr()).map_err(|_| invalid)?;
            let (memory, header) = SharedMemory::of_descriptor(file).ok_or(invalid)?;
            (Some(memory), header)
        }
        FABRIC if state.options.fabric => (None, words(&Out::<[u8; 64]>::at(handle.cast()).get()?).ok_or(invalid)?),
        _ => return Err(invalid),
    };
    let [simulator, serial, base, bytes, alloc_type, location_type, id] = header;
    let origin = Origin { simulator, serial };
    if simulator == state.identity() {
        let original =
            state.pools.iter().find(|(_, pool)| pool.serial == serial).map(|(_, pool)| (pool.kind, pool.location));
        let (kind, location) = original.ok_or(invalid)?;
        let number = state.add_pool(Owner::Imported(origin), kind, location, 0, None);
        return pool.set(state.handle(Kind::Pool, number));
    }
    let on_device = location_type == u64::from(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE.0)
        && alloc_type == u64::from(CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED.0);
    let device = usize::try_from(id).ok().filter(|device| *device < state.devices.len());
    let (true, Some(device), Some(memory)) = (on_device, device, memory) else {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    };
    memory.at(0, bytes).ok_or(invalid)?;
    let kind = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    let number = state.add_pool(Owner::Imported(origin), kind, at_device(device), 0, None);
    let here = state.addresses.name(bytes);
    state.backing.open_window(here, bytes, memory);
    if let Some(imported) = state.pools.get_mut(number) {
        imported.window = Some((here, base));
    }
    pool.set(state.handle(Kind::Pool, number))
}

pub(crate) fn export_pointer(
    state: &mut State,
    data: Out<CUmemPoolPtrExportData_v1>,
    pointer: CUdeviceptr_v2,
) -> Answer {
    data.required()?;
    state.unsafe_in_capture()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let (_, allocation) = state.memory.holding(pointer).ok_or(invalid)?;
    let Home::Pool(pool) = allocation.home else { return Err(invalid) };
    let (start, bytes, span, serial) = (allocation.address, allocation.bytes, allocation.span, allocation.serial);
    let pool = state.pools.get(pool).filter(|pool| pool.exported).ok_or(invalid)?;
    let pool = pool.serial;
    // No two exports look the same.
    state.exports += 1;
    let words = [state.identity(), pool, start, bytes, span, serial, state.exports];
    data.set(CUmemPoolPtrExportData_v1 { reserved: pack(words) })
}

/// A new name for the same memory.
pub(crate) fn import_pointer(
    state: &mut State,
    pointer: Out<CUdeviceptr_v2>,
    pool: CUmemoryPool,
    data: Out<CUmemPoolPtrExportData_v1>,
) -> Answer {
    pointer.required()?;
    state.unsafe_in_capture()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let [simulator, from, start, bytes, span, exported, _] = words(&data.get()?.reserved).ok_or(invalid)?;
    let (number, found) = state.pool(pool)?;
    if found.owner != Owner::Imported(Origin { simulator, serial: from }) {
        return Err(invalid);
    }
    let (window, of_pool) = (found.window, found.device);
    let (bytes, span, device, physical, original) = if simulator == state.identity() {
        let original = state.memory.starting(start).and_then(|at| Some((at, state.memory.all.get(at)?)));
        let (at, original) = original.filter(|(_, original)| original.serial == exported).ok_or(invalid)?;
        (original.bytes, original.span, original.device, original.physical, Some((at, exported)))
    } else {
        // Whether it still is allocated, only its own process knows.
        let (here, there) = window.ok_or(invalid)?;
        let offset = start.checked_sub(there).ok_or(invalid)?;
        state.backing.window(here).and_then(|memory| memory.at(offset, span.max(bytes))).ok_or(invalid)?;
        (bytes, span, of_pool, here + offset, None)
    };
    let address = state.addresses.name(span);
    let made = Operation { id: state.next_operation(), entry: state.entry, stream: None };
    let serial = state.serial();
    state.memory.insert(Allocation {
        address,
        bytes,
        span,
        home: Home::Imported(number),
        device,
        block: None,
        physical,
        original,
        serial,
        made,
        freed: None,
        at: None,
        history: History::new(),
        ready: true,
        gone: false,
        uses: 0,
        placement: Placement::default(),
    });
    state.pool_gained_allocation(number);
    pointer.set(address)
}
