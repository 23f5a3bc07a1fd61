//! Modules, functions and launches.

use core::ffi::{CStr, c_void};

use cuda_sys::{CUfunction, CUfunction_attribute, CUmodule, CUstream, Functions, Symbol};

use super::{call, out, stream::relaxed};
use crate::{Error, Result};

/// # Safety
/// `image` must be terminated PTX text, or a whole cubin or fatbin. The current context must be the one that the module
/// is to belong to.
pub(crate) unsafe fn module_load_data(functions: &Functions, image: *const c_void) -> Result<CUmodule> {
    // What could not be unloaded again is not loaded.
    if functions.cuModuleUnload.is_none() {
        return Err(Error::Unsupported(Symbol::cuModuleUnload));
    }
    // SAFETY: the driver writes the handle when it answers success.
    relaxed(functions, || unsafe { out(|module| call!(functions, cuModuleLoadData?(module, image))) })
}

/// # Safety
/// `module` must be live and not be used afterwards, nor its functions.
pub(crate) unsafe fn module_unload(functions: &Functions, module: CUmodule) -> Result<()> {
    call!(functions, cuModuleUnload?(module))
}

/// # Safety
/// `module` must be live.
pub(crate) unsafe fn module_get_function(functions: &Functions, module: CUmodule, name: &CStr) -> Result<CUfunction> {
    // SAFETY: the driver writes the handle when it answers success.
    unsafe { out(|function| call!(functions, cuModuleGetFunction?(function, module, name.as_ptr()))) }
}

/// # Safety
/// `function` must be live.
pub(crate) unsafe fn func_get_attribute(
    functions: &Functions,
    function: CUfunction,
    attribute: CUfunction_attribute,
) -> Result<i32> {
    // SAFETY: the driver writes the value when it answers success.
    unsafe { out(|value| call!(functions, cuFuncGetAttribute?(value, attribute, function))) }
}

/// # Safety
/// `function` must be live.
pub(crate) unsafe fn func_set_attribute(
    functions: &Functions,
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: i32,
) -> Result<()> {
    call!(functions, cuFuncSetAttribute?(function, attribute, value))
}

/// # Safety
/// As for [`Function::launch`](crate::launch::Function::launch); `arguments` must point at as many values as the
/// function has parameters, each of its parameter's size.
pub(crate) unsafe fn launch_kernel(
    functions: &Functions,
    function: CUfunction,
    (grid, block): ([u32; 3], [u32; 3]),
    shared_bytes: u32,
    stream: CUstream,
    arguments: *mut *mut c_void,
) -> Result<()> {
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    let extra = core::ptr::null_mut();
    call!(functions, cuLaunchKernel?(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, arguments, extra))
}
