//! What the linker knows by the driver's names: each row of the table, and the two look-ups. The code itself is in functions
//! that it knows nothing of: an address of an export may be another library's function of the same name.
//!
//! Each asks the look-up for its function at every call, so that what one copy of the library lacks, it lacks by name as
//! well: the name is there, and the call answers `CUDA_ERROR_NOT_FOUND`.
#![allow(non_snake_case, reason = "named as the driver names them")]
#![allow(clippy::too_many_arguments, reason = "signatures are the driver's")]

use core::{
    ffi::{c_char, c_int, c_uint, c_ulonglong, c_void},
    mem::transmute,
};

use cuda_sys::*;

use crate::entry::{Device, Pointer, Void, rows};

macro_rules! exports {
    ($( $need:ident $name:ident $(as $export:ident)?( $($arg:ident: $type:ty),* ) => $($implementation:ident)::+; )*) => {
        $( exports!(@function $name, $($export)? $name, ($($arg: $type),*)); )*
    };
    // The first of the names is what the linker calls it.
    (@function $name:ident, $export:ident $($row:ident)?, ($($arg:ident: $type:ty),*)) => {
        /// # Safety
        /// As in CUDA's documentation.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $export($($arg: $type),*) -> CUresult {
            type Function = unsafe extern "C" fn($($type),*) -> CUresult;
            match super::entry(Symbol::$name) {
                // SAFETY: the look-up gives the function of this row, which has the row's signature; and the caller
                // promises what the driver's documentation asks for.
                Ok(address) => unsafe { transmute::<*mut c_void, Function>(address)($($arg),*) },
                Err(code) => code,
            }
        }
    };
}

rows!(exports);

/// # Safety
/// As in CUDA's documentation.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut Void,
    version: c_int,
    flags: cuuint64_t,
) -> CUresult {
    // SAFETY: the caller's promise is the same.
    unsafe { super::get_proc_address_v11030(symbol, function, version, flags) }
}

/// # Safety
/// As in CUDA's documentation.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut Void,
    version: c_int,
    flags: cuuint64_t,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    // SAFETY: the caller's promise is the same.
    unsafe { super::get_proc_address_v12000(symbol, function, version, flags, status) }
}
