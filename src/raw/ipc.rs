//! Sharing between processes: pools, pointers and events.
//!
//! A driver keeps what is shared under the context that is current, where it has one: the callers make one current
//! wherever they know it.

use core::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
};

use cuda_sys::{
    CUdeviceptr_v2, CUevent, CUipcEventHandle_v1, CUmemAllocationHandleType, CUmemPoolPtrExportData_v1, CUmemoryPool,
    CUpointer_attribute, Functions,
};

use super::{call, out, stream::relaxed};
use crate::Result;

/// Size of a fabric handle, of an exported pointer and of an event's handle, in bytes.
pub(crate) const HANDLE_LEN: usize = 64;

const _: () =
    assert!(size_of::<CUmemPoolPtrExportData_v1>() == HANDLE_LEN && size_of::<CUipcEventHandle_v1>() == HANDLE_LEN);

/// A handle of `kind`, which is of type `H`.
///
/// # Safety
/// `pool` must be live, and `H` the type that the driver's documentation gives for handles of `kind`.
pub(crate) unsafe fn mem_pool_export<H>(
    functions: &Functions,
    pool: CUmemoryPool,
    kind: CUmemAllocationHandleType,
) -> Result<H> {
    let export = |handle: *mut H| {
        let handle = handle.cast();
        call!(functions, cuMemPoolExportToShareableHandle?(handle, pool, kind, 0))
    };
    // SAFETY: the driver writes a handle of the kind's type when it answers success.
    relaxed(functions, || unsafe { out(export) })
}

/// Imports the pool behind a file descriptor, which stays the caller's.
///
/// # Safety
/// A context must be current, and `file` open.
#[cfg(unix)]
pub(crate) unsafe fn mem_pool_import_file(functions: &Functions, file: c_int) -> Result<CUmemoryPool> {
    let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // The number itself is passed, in place of a pointer. It is not negative: the file is open.
    let handle = ptr::without_provenance_mut(usize::try_from(file).unwrap_or(usize::MAX));
    // SAFETY: as the caller says.
    unsafe { mem_pool_import(functions, handle, kind) }
}

/// Imports the pool that a fabric handle names.
///
/// # Safety
/// A context must be current.
pub(crate) unsafe fn mem_pool_import_fabric(functions: &Functions, handle: &[u8; HANDLE_LEN]) -> Result<CUmemoryPool> {
    let handle = ptr::from_ref(handle).cast_mut().cast();
    // SAFETY: the handle is one of that kind, and outlives the call, which only reads it.
    unsafe { mem_pool_import(functions, handle, CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC) }
}

/// # Safety
/// A context must be current, and `handle` what the driver's documentation asks for with that kind.
unsafe fn mem_pool_import(
    functions: &Functions,
    handle: *mut c_void,
    kind: CUmemAllocationHandleType,
) -> Result<CUmemoryPool> {
    let import = |pool: *mut CUmemoryPool| call!(functions, cuMemPoolImportFromShareableHandle?(pool, handle, kind, 0));
    // SAFETY: the driver writes the pool when it answers success.
    relaxed(functions, || unsafe { out(import) })
}

/// # Safety
/// `address` must be a live stream-ordered allocation.
pub(crate) unsafe fn mem_pool_export_pointer(
    functions: &Functions,
    address: CUdeviceptr_v2,
) -> Result<[u8; HANDLE_LEN]> {
    let export = |data: *mut CUmemPoolPtrExportData_v1| call!(functions, cuMemPoolExportPointer?(data, address));
    // SAFETY: the driver writes the data when it answers success.
    relaxed(functions, || unsafe { out(export) }).map(|data| data.reserved)
}

/// # Safety
/// `pool` must be a live imported pool, and a context current.
pub(crate) unsafe fn mem_pool_import_pointer(
    functions: &Functions,
    pool: CUmemoryPool,
    data: &[u8; HANDLE_LEN],
) -> Result<CUdeviceptr_v2> {
    let mut data = CUmemPoolPtrExportData_v1 { reserved: *data };
    let data = &raw mut data;
    let import = |address: *mut CUdeviceptr_v2| call!(functions, cuMemPoolImportPointer?(address, pool, data));
    // SAFETY: the driver writes the address when it answers success.
    relaxed(functions, || unsafe { out(import) })
}

/// Where the memory around an address begins, how many bytes it is, and on which device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: CUdeviceptr_v2,
    pub(crate) bytes: usize,
    pub(crate) device: c_int,
}

/// What the driver says of the memory that `address` lies in; all zero if it knows none.
///
/// # Safety
/// A context must be current.
pub(crate) unsafe fn pointer_range(functions: &Functions, address: CUdeviceptr_v2) -> Result<Range> {
    let mut range = Range { start: 0, bytes: 0, device: -1 };
    let mut attributes = [
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut values: [*mut c_void; 3] =
        [(&raw mut range.start).cast(), (&raw mut range.bytes).cast(), (&raw mut range.device).cast()];
    let (count, attributes, values) = (attributes.len() as c_uint, attributes.as_mut_ptr(), values.as_mut_ptr());
    relaxed(functions, || call!(functions, cuPointerGetAttributes?(count, attributes, values, address)))?;
    Ok(range)
}

/// # Safety
/// `event` must be live.
pub(crate) unsafe fn ipc_get_event_handle(functions: &Functions, event: CUevent) -> Result<[u8; HANDLE_LEN]> {
    let get = |handle: *mut CUipcEventHandle_v1| call!(functions, cuIpcGetEventHandle?(handle, event));
    // SAFETY: the driver writes the handle when it answers success.
    let handle = relaxed(functions, || unsafe { out(get) })?;
    Ok(handle.reserved.map(c_char::cast_unsigned))
}

/// # Safety
/// The current context must be the one in which the event is to be used.
pub(crate) unsafe fn ipc_open_event_handle(functions: &Functions, handle: &[u8; HANDLE_LEN]) -> Result<CUevent> {
    let handle = CUipcEventHandle_v1 { reserved: handle.map(u8::cast_signed) };
    let open = |event: *mut CUevent| call!(functions, cuIpcOpenEventHandle?(event, handle));
    // SAFETY: the driver writes the event when it answers success.
    relaxed(functions, || unsafe { out(open) })
}
