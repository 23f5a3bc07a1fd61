//! Sharing pools, pointers and events. What is exported can be imported in the same process.

use core::ffi::{c_ulonglong, c_void};

use cuda_sys::*;

use crate::{
    args::Out,
    checker::Operation,
    handle::Kind,
    history::History,
    managed::Placement,
    memory::{Allocation, Home},
    pool::Owner,
    state::{Answer, State},
};

const TAG: [u8; 8] = *b"cupoolIP";

/// What an exported pointer carries.
fn words(bytes: &[u8; 64]) -> Option<[u64; 3]> {
    let (tag, rest) = bytes.split_first_chunk::<8>()?;
    if *tag != TAG {
        return None;
    }
    let mut words = [0; 3];
    for (word, chunk) in words.iter_mut().zip(rest.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    Some(words)
}

fn pack(words: [u64; 3]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let packed = TAG.into_iter().chain(words.into_iter().flat_map(u64::to_le_bytes));
    for (to, from) in bytes.iter_mut().zip(packed) {
        *to = from;
    }
    bytes
}

impl State {
    /// Tells this simulator from all others.
    const fn identity(&self) -> u64 {
        (self.slot as u64) << 32 | self.epoch as u64
    }
}

pub(crate) fn export_event(state: &mut State, handle: Out<CUipcEventHandle_v1>, event: CUevent) -> Answer {
    handle.required()?;
    let flags = state.event_flags(event)?;
    if flags & CUevent_flags_enum::CU_EVENT_INTERPROCESS.0 == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let bytes = pack([state.identity(), event.addr() as u64, 0]);
    handle.set(CUipcEventHandle_v1 { reserved: bytes.map(|byte| byte as core::ffi::c_char) })
}

/// The driver refuses to open an event in the process that exported it.
pub(crate) fn open_event(state: &mut State, event: Out<CUevent>, handle: CUipcEventHandle_v1) -> Answer {
    event.required()?;
    state.current_context()?;
    match words(&handle.reserved.map(|byte| byte as u8)) {
        Some([identity, ..]) if identity == state.identity() => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

const FILE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

pub(crate) fn export_pool(
    state: &mut State,
    handle: Out<c_void>,
    pool: CUmemoryPool,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    handle.required()?;
    let identity = state.identity();
    let (_, pool) = state.pool(pool)?;
    if flags != 0 || kind.0 == 0 || pool.handle_types & kind.0 != kind.0 || matches!(pool.owner, Owner::Imported(_)) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if kind != FILE {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let file = files::make(&pack([identity, pool.serial, 0])).ok_or(CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    handle.cast::<core::ffi::c_int>().set(file)
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
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    if flags != 0 || kind != FILE {
        return Err(invalid);
    }
    // The descriptor itself is passed, as a pointer.
    let file = core::ffi::c_int::try_from(handle.addr()).map_err(|_| invalid)?;
    let [identity, serial, _] = files::read(file).as_ref().and_then(words).ok_or(invalid)?;
    if identity != state.identity() {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let original =
        state.pools.iter().find(|(_, pool)| pool.serial == serial).map(|(_, pool)| (pool.kind, pool.location));
    let (kind, location) = original.ok_or(invalid)?;
    let number = state.add_pool(Owner::Imported(serial), kind, location, 0, None);
    pool.set(state.handle(Kind::Pool, number))
}

pub(crate) fn export_pointer(
    state: &mut State,
    data: Out<CUmemPoolPtrExportData_v1>,
    pointer: CUdeviceptr_v2,
) -> Answer {
    data.required()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let (_, allocation) = state.memory.holding(pointer).ok_or(invalid)?;
    let Home::Pool(pool) = allocation.home else { return Err(invalid) };
    let (start, serial) = (allocation.address, allocation.serial);
    let pool = state.pools.get(pool).filter(|pool| pool.handle_types != 0).ok_or(invalid)?;
    data.set(CUmemPoolPtrExportData_v1 { reserved: pack([pool.serial, start, serial]) })
}

/// A new name for the same memory.
pub(crate) fn import_pointer(
    state: &mut State,
    pointer: Out<CUdeviceptr_v2>,
    pool: CUmemoryPool,
    data: Out<CUmemPoolPtrExportData_v1>,
) -> Answer {
    pointer.required()?;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let [from, start, exported] = words(&data.get()?.reserved).ok_or(invalid)?;
    let (number, found) = state.pool(pool)?;
    if found.owner != Owner::Imported(from) {
        return Err(invalid);
    }
    let original = state.memory.starting(start).and_then(|number| state.memory.all.get(number));
    let original = original.filter(|allocation| allocation.serial == exported).ok_or(invalid)?;
    let (bytes, span, device, physical) = (original.bytes, original.span, original.device, original.physical);
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

#[cfg(unix)]
mod files {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
        os::fd::{BorrowedFd, IntoRawFd},
    };

    /// A file descriptor, the caller's to close, behind which the bytes lie.
    pub(super) fn make(bytes: &[u8; 64]) -> Option<i32> {
        let mut file = anonymous()?;
        file.write_all(bytes).ok()?;
        Some(file.into_raw_fd())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn anonymous() -> Option<File> {
        use std::os::fd::FromRawFd;
        // SAFETY: the name is terminated.
        let file = unsafe { libc::memfd_create(c"cupool-sim".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: just opened, and owned by nobody else.
        (file >= 0).then(|| unsafe { File::from_raw_fd(file) })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn anonymous() -> Option<File> {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("cupool-sim-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path).ok()?;
        std::fs::remove_file(&path).ok()?;
        Some(file)
    }

    /// The bytes behind a descriptor, which stays the caller's.
    pub(super) fn read(file: i32) -> Option<[u8; 64]> {
        if file < 0 {
            return None;
        }
        // SAFETY: the caller passes an open descriptor; one that is not open makes the reads fail.
        let borrowed = unsafe { BorrowedFd::borrow_raw(file) };
        let mut file = File::from(borrowed.try_clone_to_owned().ok()?);
        let mut bytes = [0; 64];
        file.rewind().ok()?;
        file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(not(unix))]
mod files {
    /// Only Unix has file descriptors.
    pub(super) fn make(_: &[u8; 64]) -> Option<i32> {
        None
    }

    /// Only Unix has file descriptors.
    pub(super) fn read(_: i32) -> Option<[u8; 64]> {
        None
    }
}
