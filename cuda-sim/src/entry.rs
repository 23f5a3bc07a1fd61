//! The entry points: one row each, giving name, signature and implementation.
//!
//! Table functions carry no user data, so each is generic over the slot of its simulator: a jump into code that is
//! shared by all slots. What the shared library exports is made from the same rows: see `export/by_name.rs`.
#![allow(non_snake_case, reason = "entry points are named as the driver names them")]
#![allow(clippy::too_many_arguments, reason = "signatures are the driver's")]

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_sys::*;

use crate::{
    args::Arg, capture, context, copy, device, event, fill, free, graph, host, ipc, kernel, location, managed, memory,
    module, pointer, pool, pool_attributes, slots, state::Answer, stream,
};

/// Runs one call: admission, then the implementation. Nothing unwinds into the caller.
fn enter(slot: usize, symbol: Symbol, implementation: impl FnOnce(&mut slots::Call) -> Answer) -> CUresult {
    catch_unwind(AssertUnwindSafe(|| {
        let mut call = match slots::admit(slot, symbol) {
            Ok(call) => call,
            Err(code) => return code,
        };
        match implementation(&mut call) {
            Ok(()) => slots::settle(&mut call).err().unwrap_or(CUresult::CUDA_SUCCESS),
            Err(code) => code,
        }
    }))
    .unwrap_or(CUresult::CUDA_ERROR_UNKNOWN)
}

macro_rules! entries {
    ($( $need:ident $name:ident $(as $export:ident)?( $($arg:ident: $type:ty),* ) => $($implementation:ident)::+; )*) => {
        $(
            unsafe extern "C" fn $name<const SLOT: usize>($($arg: $type),*) -> CUresult {
                fn shared(slot: usize, $($arg: $type),*) -> CUresult {
                    enter(slot, Symbol::$name, move |call| {
                        // SAFETY: the caller owes what the driver's documentation asks of it, and the entry point
                        // is unsafe for that reason; taking over its arguments adds no demand.
                        $($implementation)::+(call, $( unsafe { Arg::take($arg) } ),*)
                    })
                }
                shared(SLOT, $($arg),*)
            }
        )*

        /// The table of one slot, as a driver of `version` fills it.
        const fn table<const SLOT: usize>(version: u32) -> Functions {
            Functions { $( $name: entries!(@field $need $name SLOT version), )* }
        }
    };
    (@field required $name:ident $slot:ident $version:ident) => { $name::<$slot> };
    (@field optional $name:ident $slot:ident $version:ident) => {
        if $version >= Symbol::$name.since() { Some($name::<$slot>) } else { None }
    };
}

macro_rules! tables {
    ($($slot:literal)*) => {
        /// The table of `slot`, as a driver of `version` fills it.
        pub(crate) fn functions(slot: usize, version: u32) -> Option<Functions> {
            match slot { $( $slot => Some(table::<$slot>(version)), )* _ => None }
        }
    };
}

tables!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

pub(crate) type Void = *mut c_void;
pub(crate) type Device = CUdevice;
pub(crate) type Pointer = CUdeviceptr_v2;

/// Hands the rows to a macro. Where the linker knows a row by another name than the table, that stands after `as`: a
/// signature that has had a forerunner of the same name is exported with a suffix.
macro_rules! rows {
    ($entries:ident) => { $entries! {
            required cuInit(flags: c_uint) => device::init;
            required cuDriverGetVersion(version: *mut c_int) => device::driver_version;
            optional cuGetErrorName(error: CUresult, name: *mut *const c_char) => device::error_name;
            optional cuGetErrorString(error: CUresult, text: *mut *const c_char) => device::error_string;

            required cuDeviceGet(device: *mut Device, ordinal: c_int) => device::get;
            required cuDeviceGetCount(count: *mut c_int) => device::count;
            required cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: Device) => device::attribute;
            optional cuDeviceGetName(name: *mut c_char, len: c_int, device: Device) => device::name;
            optional cuDeviceGetUuid(uuid: *mut CUuuid, device: Device) => device::uuid;
            optional cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: Device) => device::uuid;
            optional cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: Device) => device::pci_bus_id;
            optional cuDeviceTotalMem as cuDeviceTotalMem_v2(bytes: *mut usize, device: Device) => device::total_memory;
            optional cuDeviceCanAccessPeer(can: *mut c_int, device: Device, peer: Device) => device::can_access_peer;

            required cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: Device) => context::retain;
            required cuDevicePrimaryCtxRelease as cuDevicePrimaryCtxRelease_v2(device: Device) => context::release;
            optional cuDevicePrimaryCtxReset as cuDevicePrimaryCtxReset_v2(device: Device) => context::reset;
            optional cuDevicePrimaryCtxGetState(device: Device, flags: *mut c_uint, active: *mut c_int) => context::primary_state;
            required cuCtxPushCurrent as cuCtxPushCurrent_v2(context: CUcontext) => context::push;
            required cuCtxPopCurrent as cuCtxPopCurrent_v2(context: *mut CUcontext) => context::pop;
            optional cuCtxGetCurrent(context: *mut CUcontext) => context::current;
            optional cuCtxSetCurrent(context: CUcontext) => context::set_current;
            optional cuCtxGetDevice(device: *mut Device) => context::current_device;
            optional cuCtxSynchronize() => context::synchronize;
            optional cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) => stream::priority_range;

            required cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) => stream::create;
            optional cuStreamCreate(stream: *mut CUstream, flags: c_uint) => stream::create_plain;
            required cuStreamDestroy as cuStreamDestroy_v2(stream: CUstream) => stream::destroy;
            required cuStreamQuery(stream: CUstream) => stream::query;
            required cuStreamSynchronize(stream: CUstream) => stream::synchronize;
            required cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) => event::wait;
            optional cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) => stream::context;
            optional cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) => stream::id;
            optional cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) => stream::flags;
            optional cuStreamGetPriority(stream: CUstream, priority: *mut c_int) => stream::priority;
            optional cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus) => capture::status;
            optional cuStreamGetCaptureInfo(stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t) => capture::info;
            optional cuStreamBeginCapture as cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) => capture::begin;
            optional cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) => capture::end;
            optional cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) => capture::exchange_mode;
            optional cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: Void) => stream::launch_host_function;

            required cuEventCreate(event: *mut CUevent, flags: c_uint) => event::create;
            required cuEventDestroy as cuEventDestroy_v2(event: CUevent) => event::destroy;
            required cuEventRecord(event: CUevent, stream: CUstream) => event::record;
            required cuEventQuery(event: CUevent) => event::query;
            required cuEventSynchronize(event: CUevent) => event::synchronize;
            optional cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) => event::elapsed;
            optional cuIpcGetEventHandle(handle: *mut CUipcEventHandle_v1, event: CUevent) => ipc::export_event;
            optional cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle_v1) => ipc::open_event;

            optional cuMemGetInfo as cuMemGetInfo_v2(free: *mut usize, total: *mut usize) => memory::info;
            optional cuMemAlloc as cuMemAlloc_v2(pointer: *mut Pointer, bytes: usize) => memory::allocate;
            optional cuMemFree as cuMemFree_v2(pointer: Pointer) => free::now;
            optional cuMemAllocManaged(pointer: *mut Pointer, bytes: usize, flags: c_uint) => managed::allocate;
            optional cuMemHostAlloc(pointer: *mut Void, bytes: usize, flags: c_uint) => host::allocate;
            optional cuMemFreeHost(pointer: Void) => host::free;
            optional cuMemHostGetDevicePointer as cuMemHostGetDevicePointer_v2(device: *mut Pointer, host: Void, flags: c_uint) => host::device_pointer;
            optional cuMemHostRegister as cuMemHostRegister_v2(pointer: Void, bytes: usize, flags: c_uint) => host::register;
            optional cuMemHostUnregister(pointer: Void) => host::unregister;
            optional cuMemGetAddressRange as cuMemGetAddressRange_v2(base: *mut Pointer, bytes: *mut usize, pointer: Pointer) => pointer::address_range;
            optional cuPointerGetAttribute(data: Void, attribute: CUpointer_attribute, pointer: Pointer) => pointer::attribute;
            optional cuPointerGetAttributes(count: c_uint, attributes: *mut CUpointer_attribute, data: *mut Void, pointer: Pointer) => pointer::attributes;

            required cuMemcpyHtoDAsync as cuMemcpyHtoDAsync_v2(target: Pointer, source: *const c_void, bytes: usize, stream: CUstream) => copy::host_to_device;
            required cuMemcpyDtoHAsync as cuMemcpyDtoHAsync_v2(target: Void, source: Pointer, bytes: usize, stream: CUstream) => copy::device_to_host;
            required cuMemcpyDtoDAsync as cuMemcpyDtoDAsync_v2(target: Pointer, source: Pointer, bytes: usize, stream: CUstream) => copy::device_to_device;
            optional cuMemcpyAsync(target: Pointer, source: Pointer, bytes: usize, stream: CUstream) => copy::any;
            optional cuMemcpyPeerAsync(target: Pointer, to: CUcontext, source: Pointer, from: CUcontext, bytes: usize, stream: CUstream) => copy::peer;
            optional cuMemcpyBatchAsync(targets: *mut Pointer, sources: *mut Pointer, sizes: *mut usize, count: usize, attributes: *mut CUmemcpyAttributes_v1, starts: *mut usize, attribute_count: usize, failed: *mut usize, stream: CUstream) => copy::batch;
            required cuMemsetD8Async(target: Pointer, value: u8, count: usize, stream: CUstream) => fill::bytes;
            required cuMemsetD16Async(target: Pointer, value: u16, count: usize, stream: CUstream) => fill::halves;
            required cuMemsetD32Async(target: Pointer, value: c_uint, count: usize, stream: CUstream) => fill::words;

            optional cuMemPrefetchAsync(pointer: Pointer, bytes: usize, device: Device, stream: CUstream) => managed::prefetch;
            optional cuMemPrefetchAsync_v2(pointer: Pointer, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream) => managed::prefetch_to;
            optional cuMemAdvise(pointer: Pointer, bytes: usize, advice: CUmem_advise, device: Device) => managed::advise;
            optional cuMemAdvise_v2(pointer: Pointer, bytes: usize, advice: CUmem_advise, location: CUmemLocation) => managed::advise_for;
            optional cuMemRangeGetAttribute(data: Void, data_bytes: usize, attribute: CUmem_range_attribute, pointer: Pointer, bytes: usize) => managed::range_attribute;

            optional cuMemAllocAsync(pointer: *mut Pointer, bytes: usize, stream: CUstream) => pool::allocate_from_current;
            required cuMemAllocFromPoolAsync(pointer: *mut Pointer, bytes: usize, pool: CUmemoryPool, stream: CUstream) => pool::allocate;
            required cuMemFreeAsync(pointer: Pointer, stream: CUstream) => free::in_order;
            required cuMemPoolCreate(pool: *mut CUmemoryPool, props: *const CUmemPoolProps_v1) => pool::create;
            required cuMemPoolDestroy(pool: CUmemoryPool) => pool::destroy;
            required cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: Void) => pool_attributes::get;
            required cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: Void) => pool_attributes::set;
            required cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) => pool_attributes::trim;
            optional cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, pool: CUmemoryPool, location: *mut CUmemLocation_v1) => pool_attributes::get_access;
            optional cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc_v1, count: usize) => pool_attributes::set_access;
            optional cuMemPoolExportToShareableHandle(handle: Void, pool: CUmemoryPool, kind: CUmemAllocationHandleType, flags: c_ulonglong) => ipc::export_pool;
            optional cuMemPoolImportFromShareableHandle(pool: *mut CUmemoryPool, handle: Void, kind: CUmemAllocationHandleType, flags: c_ulonglong) => ipc::import_pool;
            optional cuMemPoolExportPointer(data: *mut CUmemPoolPtrExportData_v1, pointer: Pointer) => ipc::export_pointer;
            optional cuMemPoolImportPointer(pointer: *mut Pointer, pool: CUmemoryPool, data: *mut CUmemPoolPtrExportData_v1) => ipc::import_pointer;
            optional cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: Device) => location::device_default;
            optional cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: Device) => location::device_current;
            optional cuDeviceSetMemPool(device: Device, pool: CUmemoryPool) => location::set_device_current;
            optional cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType) => location::default_at;
            optional cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType) => location::current_at;
            optional cuMemSetMemPool(location: *mut CUmemLocation, kind: CUmemAllocationType, pool: CUmemoryPool) => location::set_current_at;

            optional cuDeviceGetGraphMemAttribute(device: Device, attribute: CUgraphMem_attribute, value: Void) => graph::memory_attribute;
            optional cuDeviceSetGraphMemAttribute(device: Device, attribute: CUgraphMem_attribute, value: Void) => graph::set_memory_attribute;
            optional cuDeviceGraphMemTrim(device: Device) => graph::trim_memory;
            optional cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) => graph::instantiate;
            optional cuGraphLaunch(exec: CUgraphExec, stream: CUstream) => graph::launch;
            optional cuGraphDestroy(graph: CUgraph) => graph::destroy;
            optional cuGraphExecDestroy(exec: CUgraphExec) => graph::destroy_exec;

            optional cuModuleLoadData(module: *mut CUmodule, image: *const c_void) => module::load;
            optional cuModuleUnload(module: CUmodule) => module::unload;
            optional cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) => module::function;
            optional cuLibraryLoadData(library: *mut CUlibrary, code: *const c_void, jit: *mut CUjit_option, jit_values: *mut Void, jit_count: c_uint, options: *mut CUlibraryOption, option_values: *mut Void, option_count: c_uint) => module::load_library;
            optional cuLibraryUnload(library: CUlibrary) => module::unload_library;
            optional cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) => module::kernel;
            optional cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) => module::kernel_function;
            optional cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction) => module::attribute;
            optional cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int) => module::set_attribute;
            optional cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream, parameters: *mut Void, extra: *mut Void) => kernel::launch;
    } };
}
pub(crate) use rows;

rows!(entries);
