//! Modules, libraries, and the functions in them. Any image loads; the functions are those that were registered.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::{collections::BTreeMap, sync::Arc};

use cuda_sys::*;

use crate::{
    args::{HostPointer, In, Out},
    checker::Misuse,
    handle::Kind,
    kernel::Kernel,
    state::{Answer, State},
};

/// A module or library that is loaded.
#[derive(Debug, Default)]
pub(crate) struct Module {
    functions: BTreeMap<String, u32>,
}

/// A function of a module, or a kernel of a library.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) kernel: Arc<Kernel>,
    attributes: BTreeMap<u32, c_int>,
}

impl State {
    /// Refuses an image of which not even the first byte is there.
    fn image(image: HostPointer) -> Answer {
        if image.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller passes an image or source text, which has at least one byte.
        if unsafe { image.0.read() } == 0 { Err(CUresult::CUDA_ERROR_INVALID_IMAGE) } else { Ok(()) }
    }

    /// The function of that name, entered once.
    fn function_in(&mut self, kind: Kind, module: u32, name: String) -> Result<u32, CUresult> {
        let table = if kind == Kind::Module { &mut self.modules } else { &mut self.libraries };
        let module = table.get_mut(module).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        if let Some(number) = module.functions.get(&name) {
            return Ok(*number);
        }
        let kernel = self.kernels.get(&name).map(Arc::clone).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let number = self.functions.insert(Function { kernel, attributes: BTreeMap::new() });
        module.functions.insert(name, number);
        Ok(number)
    }

    fn module_number<T>(&mut self, kind: Kind, handle: *mut T) -> Result<u32, CUresult> {
        let number = self.number(kind, handle).filter(|number| {
            let table = if kind == Kind::Module { &self.modules } else { &self.libraries };
            table.get(*number).is_some()
        });
        if number.is_none() {
            self.found(Misuse::UnknownHandle, handle.addr() as u64, 0, None);
        }
        number.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    fn unload(&mut self, module: Option<Module>) {
        for number in module.unwrap_or_default().functions.into_values() {
            self.functions.remove(number);
        }
    }

    fn function_number(&mut self, function: CUfunction) -> Result<u32, CUresult> {
        let number = self.number(Kind::Function, function).filter(|number| self.functions.get(*number).is_some());
        number.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}

pub(crate) fn load(state: &mut State, module: Out<CUmodule>, image: HostPointer) -> Answer {
    module.required()?;
    state.current_context()?;
    state.unsafe_in_capture()?;
    State::image(image)?;
    let number = state.modules.insert(Module::default());
    module.set(state.handle(Kind::Module, number))
}

pub(crate) fn unload(state: &mut State, module: CUmodule) -> Answer {
    state.current_context()?;
    let number = state.module_number(Kind::Module, module)?;
    let module = state.modules.remove(number);
    state.unload(module);
    Ok(())
}

pub(crate) fn function(state: &mut State, function: Out<CUfunction>, module: CUmodule, name: In<c_char>) -> Answer {
    function.required()?;
    let number = state.module_number(Kind::Module, module)?;
    let number = state.function_in(Kind::Module, number, name.text()?)?;
    function.set(state.handle(Kind::Function, number))
}

#[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
pub(crate) fn load_library(
    state: &mut State,
    library: Out<CUlibrary>,
    code: HostPointer,
    _jit: *mut CUjit_option,
    _jit_values: *mut *mut c_void,
    _jit_count: c_uint,
    _options: *mut CUlibraryOption,
    _option_values: *mut *mut c_void,
    _option_count: c_uint,
) -> Answer {
    library.required()?;
    State::image(code)?;
    let number = state.libraries.insert(Module::default());
    library.set(state.handle(Kind::Library, number))
}

pub(crate) fn unload_library(state: &mut State, library: CUlibrary) -> Answer {
    let number = state.module_number(Kind::Library, library)?;
    let library = state.libraries.remove(number);
    state.unload(library);
    Ok(())
}

pub(crate) fn kernel(state: &mut State, kernel: Out<CUkernel>, library: CUlibrary, name: In<c_char>) -> Answer {
    kernel.required()?;
    let number = state.module_number(Kind::Library, library)?;
    let number = state.function_in(Kind::Library, number, name.text()?)?;
    kernel.set(state.handle(Kind::Kernel, number))
}

pub(crate) fn kernel_function(state: &mut State, function: Out<CUfunction>, kernel: CUkernel) -> Answer {
    function.required()?;
    state.current_context()?;
    let number = state.number(Kind::Kernel, kernel).filter(|number| state.functions.get(*number).is_some());
    let number = number.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    function.set(state.handle(Kind::Function, number))
}

pub(crate) fn attribute(
    state: &mut State,
    value: Out<c_int>,
    attribute: CUfunction_attribute,
    function: CUfunction,
) -> Answer {
    let number = state.function_number(function)?;
    let set = state.functions.get(number).and_then(|function| function.attributes.get(&attribute.0)).copied();
    let default = match attribute {
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => 32,
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION
        | CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION => 90,
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => 49_152,
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => -1,
        CUfunction_attribute(0..=15) => 0,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    value.set(set.unwrap_or(default))
}

pub(crate) fn set_attribute(
    state: &mut State,
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: c_int,
) -> Answer {
    let number = state.function_number(function)?;
    if !matches!(attribute.0, 8..=15) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(function) = state.functions.get_mut(number) {
        function.attributes.insert(attribute.0, value);
    }
    Ok(())
}
