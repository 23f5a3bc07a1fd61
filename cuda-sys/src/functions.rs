//! The function table: one row per entry point of the driver.
//!
//! A row names the entry point, the `PFN_…_vNNNNN` type of its signature and the CUDA version that introduced
//! exactly that signature. The loader asks the driver for that version, so a type and the function behind it
//! cannot drift apart. Two signatures of one entry point are two rows; the later one says what the driver calls it.
#![allow(
    non_camel_case_types,
    non_snake_case,
    missing_docs,
    reason = "fields and symbols are named as the driver names them"
)]

use core::ffi::{CStr, c_void};

use crate::bindings::*;

/// Recovers the bare function type from bindgen's `Option<fn>` typedef.
#[doc(hidden)]
pub trait Pfn {
    /// The function type.
    type Fn: Copy;
}

impl<F: Copy> Pfn for Option<F> {
    type Fn = F;
}

/// Whether a driver without the entry point can be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Loading fails without it. Every driver since CUDA 11.3 has it.
    Required,
    /// Only the calls that need it fail without it.
    Optional,
}

macro_rules! functions {
    ($( $need:ident $field:ident $(= $name:literal)? : $pfn:ident = $since:literal; )*) => {
        /// The driver's entry points. Required ones are plain functions, optional ones `Option`s.
        #[derive(Clone, Copy)]
        pub struct Functions { $( pub $field: functions!(@field $need $pfn), )* }

        /// Names an entry point.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Symbol { $( $field, )* }

        impl Symbol {
            /// Every row of the table.
            pub const ALL: &[Self] = &[ $( Self::$field, )* ];

            /// The name to ask the driver for.
            #[must_use]
            pub const fn name(self) -> &'static CStr {
                match self { $( Self::$field => functions!(@name $field $($name)?), )* }
            }

            /// The row's own name: a second signature of one entry point has one of its own.
            #[must_use]
            pub const fn row(self) -> &'static str {
                match self { $( Self::$field => stringify!($field), )* }
            }

            /// The name of the type of its signature.
            #[must_use]
            pub const fn type_name(self) -> &'static str {
                match self { $( Self::$field => stringify!($pfn), )* }
            }

            /// The CUDA version that introduced this signature, as `1000 * major + 10 * minor`.
            #[must_use]
            pub const fn since(self) -> u32 {
                match self { $( Self::$field => $since, )* }
            }

            /// Whether a driver without it can be used.
            #[must_use]
            pub const fn need(self) -> Need {
                match self { $( Self::$field => Need::$need, )* }
            }
        }

        impl Functions {
            /// Fills the table from `resolve`; fails with the first required entry point that is missing.
            ///
            /// # Errors
            /// The required symbol for which `resolve` returned null.
            ///
            /// # Safety
            /// For each symbol `resolve` must return null, or the address of a function with the signature that
            /// [`Symbol::type_name`] names, which behaves as the driver's and stays valid for ever.
            pub unsafe fn resolve(mut resolve: impl FnMut(Symbol) -> *mut c_void) -> Result<Self, Symbol> {
                Ok(Self { $( $field: {
                    // SAFETY: an `Option` of a function pointer is laid out as a nullable pointer, and the caller
                    // vouches for the signature.
                    let entry = unsafe { core::mem::transmute::<*mut c_void, $pfn>(resolve(Symbol::$field)) };
                    functions!(@take $need entry, Symbol::$field)
                }, )* })
            }

            /// The address behind `symbol`; null if the driver lacks it.
            #[must_use]
            pub fn address(&self, symbol: Symbol) -> *mut c_void {
                match symbol { $( Symbol::$field => functions!(@address $need self.$field, $pfn), )* }
            }
        }
    };
    (@field Required $pfn:ident) => { <$pfn as Pfn>::Fn };
    (@field Optional $pfn:ident) => { $pfn };
    (@name $field:ident) => { functions!(@cstr concat!(stringify!($field), "\0")) };
    (@name $field:ident $name:literal) => { functions!(@cstr concat!($name, "\0")) };
    (@cstr $bytes:expr) => { const { c_str($bytes) } };
    (@take Required $entry:expr, $symbol:expr) => { match $entry { Some(entry) => entry, None => return Err($symbol) } };
    (@take Optional $entry:expr, $symbol:expr) => { $entry };
    (@address Required $entry:expr, $pfn:ident) => { $entry as *mut c_void };
    (@address Optional $entry:expr, $pfn:ident) => {
        match $entry { Some(entry) => entry as *mut c_void, None => core::ptr::null_mut() }
    };
}

const fn c_str(terminated: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(terminated.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

functions! {
    // Initialisation, version, errors
    Required cuInit: PFN_cuInit_v2000 = 2000;
    Required cuDriverGetVersion: PFN_cuDriverGetVersion_v2020 = 2020;
    Optional cuGetErrorName: PFN_cuGetErrorName_v6000 = 6000;
    Optional cuGetErrorString: PFN_cuGetErrorString_v6000 = 6000;

    // Devices
    Required cuDeviceGet: PFN_cuDeviceGet_v2000 = 2000;
    Required cuDeviceGetCount: PFN_cuDeviceGetCount_v2000 = 2000;
    Required cuDeviceGetAttribute: PFN_cuDeviceGetAttribute_v2000 = 2000;
    Optional cuDeviceGetName: PFN_cuDeviceGetName_v2000 = 2000;
    Optional cuDeviceGetUuid: PFN_cuDeviceGetUuid_v9020 = 9020;
    Optional cuDeviceGetUuid_v2 = "cuDeviceGetUuid": PFN_cuDeviceGetUuid_v11040 = 11040;
    Optional cuDeviceGetPCIBusId: PFN_cuDeviceGetPCIBusId_v4010 = 4010;
    Optional cuDeviceTotalMem: PFN_cuDeviceTotalMem_v3020 = 3020;
    Optional cuDeviceCanAccessPeer: PFN_cuDeviceCanAccessPeer_v4000 = 4000;

    // Contexts
    Required cuDevicePrimaryCtxRetain: PFN_cuDevicePrimaryCtxRetain_v7000 = 7000;
    Required cuDevicePrimaryCtxRelease: PFN_cuDevicePrimaryCtxRelease_v11000 = 11000;
    Optional cuDevicePrimaryCtxReset: PFN_cuDevicePrimaryCtxReset_v11000 = 11000;
    Optional cuDevicePrimaryCtxGetState: PFN_cuDevicePrimaryCtxGetState_v7000 = 7000;
    Required cuCtxPushCurrent: PFN_cuCtxPushCurrent_v4000 = 4000;
    Required cuCtxPopCurrent: PFN_cuCtxPopCurrent_v4000 = 4000;
    Optional cuCtxGetCurrent: PFN_cuCtxGetCurrent_v4000 = 4000;
    Optional cuCtxSetCurrent: PFN_cuCtxSetCurrent_v4000 = 4000;
    Optional cuCtxGetDevice: PFN_cuCtxGetDevice_v2000 = 2000;
    Optional cuCtxSynchronize: PFN_cuCtxSynchronize_v2000 = 2000;
    Optional cuCtxGetStreamPriorityRange: PFN_cuCtxGetStreamPriorityRange_v5050 = 5050;

    // Streams
    Required cuStreamCreateWithPriority: PFN_cuStreamCreateWithPriority_v5050 = 5050;
    Optional cuStreamCreate: PFN_cuStreamCreate_v2000 = 2000;
    Required cuStreamDestroy: PFN_cuStreamDestroy_v4000 = 4000;
    Required cuStreamQuery: PFN_cuStreamQuery_v2000 = 2000;
    Required cuStreamSynchronize: PFN_cuStreamSynchronize_v2000 = 2000;
    Required cuStreamWaitEvent: PFN_cuStreamWaitEvent_v3020 = 3020;
    Optional cuStreamGetCtx: PFN_cuStreamGetCtx_v9020 = 9020;
    Optional cuStreamGetId: PFN_cuStreamGetId_v12000 = 12000;
    Optional cuStreamGetFlags: PFN_cuStreamGetFlags_v5050 = 5050;
    Optional cuStreamGetPriority: PFN_cuStreamGetPriority_v5050 = 5050;
    Optional cuStreamIsCapturing: PFN_cuStreamIsCapturing_v10000 = 10000;
    Optional cuStreamGetCaptureInfo: PFN_cuStreamGetCaptureInfo_v10010 = 10010;
    Optional cuStreamBeginCapture: PFN_cuStreamBeginCapture_v10010 = 10010;
    Optional cuStreamEndCapture: PFN_cuStreamEndCapture_v10000 = 10000;
    Optional cuThreadExchangeStreamCaptureMode: PFN_cuThreadExchangeStreamCaptureMode_v10010 = 10010;
    Optional cuLaunchHostFunc: PFN_cuLaunchHostFunc_v10000 = 10000;

    // Events
    Required cuEventCreate: PFN_cuEventCreate_v2000 = 2000;
    Required cuEventDestroy: PFN_cuEventDestroy_v4000 = 4000;
    Required cuEventRecord: PFN_cuEventRecord_v2000 = 2000;
    Required cuEventQuery: PFN_cuEventQuery_v2000 = 2000;
    Required cuEventSynchronize: PFN_cuEventSynchronize_v2000 = 2000;
    Optional cuEventElapsedTime: PFN_cuEventElapsedTime_v2000 = 2000;
    Optional cuIpcGetEventHandle: PFN_cuIpcGetEventHandle_v4010 = 4010;
    Optional cuIpcOpenEventHandle: PFN_cuIpcOpenEventHandle_v4010 = 4010;

    // Memory outside pools
    Optional cuMemGetInfo: PFN_cuMemGetInfo_v3020 = 3020;
    Optional cuMemAlloc: PFN_cuMemAlloc_v3020 = 3020;
    Optional cuMemFree: PFN_cuMemFree_v3020 = 3020;
    Optional cuMemAllocManaged: PFN_cuMemAllocManaged_v6000 = 6000;
    Optional cuMemHostAlloc: PFN_cuMemHostAlloc_v2020 = 2020;
    Optional cuMemFreeHost: PFN_cuMemFreeHost_v2000 = 2000;
    Optional cuMemHostGetDevicePointer: PFN_cuMemHostGetDevicePointer_v3020 = 3020;
    Optional cuMemHostRegister: PFN_cuMemHostRegister_v6050 = 6050;
    Optional cuMemHostUnregister: PFN_cuMemHostUnregister_v4000 = 4000;
    Optional cuMemGetAddressRange: PFN_cuMemGetAddressRange_v3020 = 3020;
    Optional cuPointerGetAttribute: PFN_cuPointerGetAttribute_v4000 = 4000;
    Optional cuPointerGetAttributes: PFN_cuPointerGetAttributes_v7000 = 7000;

    // Copies and fills
    Required cuMemcpyHtoDAsync: PFN_cuMemcpyHtoDAsync_v3020 = 3020;
    Required cuMemcpyDtoHAsync: PFN_cuMemcpyDtoHAsync_v3020 = 3020;
    Required cuMemcpyDtoDAsync: PFN_cuMemcpyDtoDAsync_v3020 = 3020;
    Optional cuMemcpyAsync: PFN_cuMemcpyAsync_v4000 = 4000;
    Optional cuMemcpyPeerAsync: PFN_cuMemcpyPeerAsync_v4000 = 4000;
    Optional cuMemcpyBatchAsync: PFN_cuMemcpyBatchAsync_v12080 = 12080;
    Required cuMemsetD8Async: PFN_cuMemsetD8Async_v3020 = 3020;
    Required cuMemsetD16Async: PFN_cuMemsetD16Async_v3020 = 3020;
    Required cuMemsetD32Async: PFN_cuMemsetD32Async_v3020 = 3020;

    // Managed memory
    Optional cuMemPrefetchAsync: PFN_cuMemPrefetchAsync_v8000 = 8000;
    Optional cuMemPrefetchAsync_v2 = "cuMemPrefetchAsync": PFN_cuMemPrefetchAsync_v12020 = 12020;
    Optional cuMemAdvise: PFN_cuMemAdvise_v8000 = 8000;
    Optional cuMemAdvise_v2 = "cuMemAdvise": PFN_cuMemAdvise_v12020 = 12020;
    Optional cuMemRangeGetAttribute: PFN_cuMemRangeGetAttribute_v8000 = 8000;

    // Stream-ordered allocation and pools
    Optional cuMemAllocAsync: PFN_cuMemAllocAsync_v11020 = 11020;
    Required cuMemAllocFromPoolAsync: PFN_cuMemAllocFromPoolAsync_v11020 = 11020;
    Required cuMemFreeAsync: PFN_cuMemFreeAsync_v11020 = 11020;
    Required cuMemPoolCreate: PFN_cuMemPoolCreate_v11020 = 11020;
    Required cuMemPoolDestroy: PFN_cuMemPoolDestroy_v11020 = 11020;
    Required cuMemPoolGetAttribute: PFN_cuMemPoolGetAttribute_v11020 = 11020;
    Required cuMemPoolSetAttribute: PFN_cuMemPoolSetAttribute_v11020 = 11020;
    Required cuMemPoolTrimTo: PFN_cuMemPoolTrimTo_v11020 = 11020;
    Optional cuMemPoolGetAccess: PFN_cuMemPoolGetAccess_v11020 = 11020;
    Optional cuMemPoolSetAccess: PFN_cuMemPoolSetAccess_v11020 = 11020;
    Optional cuMemPoolExportToShareableHandle: PFN_cuMemPoolExportToShareableHandle_v11020 = 11020;
    Optional cuMemPoolImportFromShareableHandle: PFN_cuMemPoolImportFromShareableHandle_v11020 = 11020;
    Optional cuMemPoolExportPointer: PFN_cuMemPoolExportPointer_v11020 = 11020;
    Optional cuMemPoolImportPointer: PFN_cuMemPoolImportPointer_v11020 = 11020;
    Optional cuDeviceGetDefaultMemPool: PFN_cuDeviceGetDefaultMemPool_v11020 = 11020;
    Optional cuDeviceGetMemPool: PFN_cuDeviceGetMemPool_v11020 = 11020;
    Optional cuDeviceSetMemPool: PFN_cuDeviceSetMemPool_v11020 = 11020;
    Optional cuMemGetDefaultMemPool: PFN_cuMemGetDefaultMemPool_v13000 = 13000;
    Optional cuMemGetMemPool: PFN_cuMemGetMemPool_v13000 = 13000;
    Optional cuMemSetMemPool: PFN_cuMemSetMemPool_v13000 = 13000;

    // Graphs
    Optional cuDeviceGetGraphMemAttribute: PFN_cuDeviceGetGraphMemAttribute_v11040 = 11040;
    Optional cuDeviceSetGraphMemAttribute: PFN_cuDeviceSetGraphMemAttribute_v11040 = 11040;
    Optional cuDeviceGraphMemTrim: PFN_cuDeviceGraphMemTrim_v11040 = 11040;
    Optional cuGraphInstantiateWithFlags: PFN_cuGraphInstantiateWithFlags_v11040 = 11040;
    Optional cuGraphLaunch: PFN_cuGraphLaunch_v10000 = 10000;
    Optional cuGraphDestroy: PFN_cuGraphDestroy_v10000 = 10000;
    Optional cuGraphExecDestroy: PFN_cuGraphExecDestroy_v10000 = 10000;

    // Modules, libraries, kernels
    Optional cuModuleLoadData: PFN_cuModuleLoadData_v2000 = 2000;
    Optional cuModuleUnload: PFN_cuModuleUnload_v2000 = 2000;
    Optional cuModuleGetFunction: PFN_cuModuleGetFunction_v2000 = 2000;
    Optional cuLibraryLoadData: PFN_cuLibraryLoadData_v12000 = 12000;
    Optional cuLibraryUnload: PFN_cuLibraryUnload_v12000 = 12000;
    Optional cuLibraryGetKernel: PFN_cuLibraryGetKernel_v12000 = 12000;
    Optional cuKernelGetFunction: PFN_cuKernelGetFunction_v12000 = 12000;
    Optional cuFuncGetAttribute: PFN_cuFuncGetAttribute_v2020 = 2020;
    Optional cuFuncSetAttribute: PFN_cuFuncSetAttribute_v9000 = 9000;
    Optional cuLaunchKernel: PFN_cuLaunchKernel_v4000 = 4000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_asks_for_the_version_in_its_type_name() {
        for symbol in Symbol::ALL {
            let name = symbol.name().to_str().expect("ASCII");
            assert_eq!(symbol.type_name(), format!("PFN_{name}_v{}", symbol.since()), "row {}", symbol.row());
        }
    }

    #[test]
    fn required_rows_exist_since_cuda_11_3() {
        for symbol in Symbol::ALL.iter().filter(|symbol| symbol.need() == Need::Required) {
            assert!(symbol.since() <= 11030, "{symbol:?}");
        }
    }

    #[test]
    fn resolve_returns_what_address_reports_and_names_a_missing_required_row() {
        for missing in Symbol::ALL {
            let fake = |symbol: Symbol| if symbol == *missing { 0 } else { 64 + symbol as usize * 16 };
            // SAFETY: nothing in the table is called.
            let table = unsafe { Functions::resolve(|symbol| fake(symbol) as *mut c_void) };
            match (missing.need(), table) {
                (Need::Required, table) => assert_eq!(table.err(), Some(*missing)),
                (Need::Optional, Err(symbol)) => panic!("{symbol:?} failed the load without {missing:?}"),
                (Need::Optional, Ok(table)) => {
                    for symbol in Symbol::ALL {
                        assert_eq!(table.address(*symbol) as usize, fake(*symbol), "{symbol:?}");
                    }
                }
            }
        }
    }
}
