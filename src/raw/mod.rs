//! One function per entry point of the driver: out-parameters become results, codes become errors. No policy.
//!
//! Every function here is `unsafe` where the driver would believe a wrong handle, address or length. The callers
//! argue from the invariants of their types.

#![allow(unused_unsafe, reason = "`call!` marks its own unsafe call, also where it stands inside `unsafe { out(…) }`")]

pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod graph_memory;
pub(crate) mod host;
pub(crate) mod init;
pub(crate) mod ipc;
pub(crate) mod managed;
pub(crate) mod mem_pool;
pub(crate) mod memory;
#[cfg(feature = "launch")]
pub(crate) mod module;
pub(crate) mod pointer;
pub(crate) mod stream;

use core::{mem::MaybeUninit, num::NonZero};

use cuda_sys::{CUresult, Symbol};

use crate::DriverError;

/// Calls one row of a function table: `call!(functions, cuX(…))` a required one, `call!(functions, cuX?(…))` one that
/// the driver may lack, `call!(open functions, cuX(…))` a required one after the caller has asked the gate.
macro_rules! call {
    (open $functions:expr, $symbol:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the function that holds this call passes its caller's promises on to the driver.
        let code = unsafe { ($functions.$symbol)($($argument),*) };
        $crate::raw::check(cuda_sys::Symbol::$symbol, code)
    }};
    ($functions:expr, $symbol:ident($($argument:expr),* $(,)?)) => {
        match $crate::gate::check() {
            Ok(()) => $crate::raw::call!(open $functions, $symbol($($argument),*)).map_err($crate::Error::Driver),
            Err(error) => Err(error),
        }
    };
    ($functions:expr, $symbol:ident ? ($($argument:expr),* $(,)?)) => {
        match ($crate::gate::check(), $functions.$symbol) {
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err($crate::Error::Unsupported(cuda_sys::Symbol::$symbol)),
            (Ok(()), Some(entry)) => {
                // SAFETY: the function that holds this call passes its caller's promises on to the driver.
                let code = unsafe { entry($($argument),*) };
                $crate::raw::check(cuda_sys::Symbol::$symbol, code).map_err($crate::Error::Driver)
            }
        }
    };
}
use call;

/// Turns a code into a result. Success is the code 0 there too, so that asking costs one comparison.
#[inline(always)]
fn check(call: Symbol, code: CUresult) -> Result<(), DriverError> {
    match NonZero::new(code.0) {
        None => Ok(()),
        Some(code) => Err(DriverError::new(call, code)),
    }
}

/// Runs `call` with a place for its out-parameter and takes the value it left there.
///
/// # Safety
/// `call` must write a whole `T` whenever it returns `Ok`.
#[inline(always)]
unsafe fn out<T, E>(call: impl FnOnce(*mut T) -> Result<(), E>) -> Result<T, E> {
    let mut value = MaybeUninit::uninit();
    call(value.as_mut_ptr())?;
    // SAFETY: the call succeeded, and the caller says that it then wrote the value.
    Ok(unsafe { value.assume_init() })
}

const _: () = assert!(size_of::<Result<(), DriverError>>() == 8);
