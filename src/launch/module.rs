//! Modules, their functions, and launches.

mod raw_parts;

use core::fmt;
use std::{ffi::CString, sync::Arc};

use cuda_sys::{CUfunction, CUfunction_attribute, CUmodule};

use super::{Arguments, LaunchConfig};
use crate::{Context, Error, Result, Stream, order, raw, release};

/// Code loaded into a context. Cloning shares it; it is unloaded with the last clone and the last function.
#[doc(alias = "cuModuleUnload")]
#[derive(Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

struct Loaded {
    raw: CUmodule,
    context: Context,
}

// SAFETY: module handles may be used from every thread, and the driver does its own locking.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// A kernel. It keeps its module loaded.
#[derive(Clone)]
pub struct Function {
    raw: CUfunction,
    module: Module,
}

// SAFETY: function handles may be used from every thread, and the driver does its own locking.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Module {
    /// Compiles and loads PTX text.
    ///
    /// # Errors
    /// [`Error::NotPtx`] and [`Error::InteriorNul`] before any call; `CUDA_ERROR_INVALID_PTX` and its like if the driver
    /// cannot compile it; else whatever the driver answers.
    #[doc(alias = "cuModuleLoadData")]
    pub fn from_ptx(context: &Context, text: &str) -> Result<Self> {
        // The driver looks at the first bytes for what it is given, and would take other text for a binary.
        if !is_ptx(text) {
            return Err(Error::NotPtx);
        }
        let text = CString::new(text).map_err(|_| Error::InteriorNul)?;
        // SAFETY: terminated text, and PTX by its beginning; what is wrong with the rest the driver refuses.
        unsafe { Self::load(context, text.as_bytes_with_nul()) }
    }

    /// Loads a cubin or a fatbin, as nvcc writes it.
    ///
    /// # Errors
    /// `CUDA_ERROR_NO_BINARY_FOR_GPU` if it holds nothing for this device; else whatever the driver answers.
    ///
    /// # Safety
    /// `image` must be a whole cubin or fatbin: the driver finds its length in it, and reads so far.
    #[doc(alias = "cuModuleLoadData")]
    #[doc(alias = "cuModuleLoadFatBinary")]
    pub unsafe fn from_image(context: &Context, image: &[u8]) -> Result<Self> {
        // SAFETY: the caller vouches for the image.
        unsafe { Self::load(context, image) }
    }

    /// # Safety
    /// `image` must be terminated PTX text, or a whole cubin or fatbin.
    unsafe fn load(context: &Context, image: &[u8]) -> Result<Self> {
        let context = context.try_clone()?;
        let functions = context.driver().functions();
        // SAFETY: the caller vouches for the image, and `with_current` makes the module's context the current one.
        let raw =
            context.with_current(|| unsafe { raw::module::module_load_data(functions, image.as_ptr().cast()) })?;
        Ok(Self { loaded: Arc::new(Loaded { raw, context }) })
    }

    /// The driver's handle.
    #[must_use]
    pub fn as_raw(&self) -> CUmodule {
        self.loaded.raw
    }

    /// The kernel `name`, as it is called in the code: mangled, unless it was declared `extern "C"`.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND`; [`Error::InteriorNul`]; else whatever the driver answers.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn function(&self, name: &str) -> Result<Function> {
        let name = CString::new(name).map_err(|_| Error::InteriorNul)?;
        let context = &self.loaded.context;
        let functions = context.driver().functions();
        // SAFETY: the module is live as long as this value.
        let raw =
            context.with_current(|| unsafe { raw::module::module_get_function(functions, self.loaded.raw, &name) })?;
        Ok(Function { raw, module: self.clone() })
    }
}

/// Whether `text` begins as PTX must: white space and comments, then the version.
fn is_ptx(text: &str) -> bool {
    let mut rest = text.trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n')
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/")
        } else {
            return rest.starts_with(".version");
        };
        let Some((_, after)) = after else { return false };
        rest = after.trim_start();
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let functions = self.context.driver().functions();
        // SAFETY: owned, and no function of it is left; launched kernels run to their end first.
        let unload = || unsafe { raw::module::module_unload(functions, self.raw) };
        release::report(self.context.with_current(unload));
    }
}

impl Function {
    /// The driver's handle.
    #[must_use]
    pub const fn as_raw(&self) -> CUfunction {
        self.raw
    }

    /// Enqueues one launch on `stream` and returns.
    ///
    /// Memory among the arguments that is at home on another stream is fenced: the launch comes after what its home
    /// has been given, and before what its home is given from now on.
    ///
    /// # Errors
    /// [`Error::DriverMismatch`], [`Error::LoanForgotten`] and [`Error::OrderLost`] before anything is enqueued; else
    /// whatever the driver answers. Faults of the kernel
    /// itself surface in later calls; see [`Error::is_sticky`].
    ///
    /// # Safety
    /// - The arguments must be as many as the kernel has parameters, and each of its parameter's type.
    /// - The kernel must touch no memory but what it is given, within bounds; what it is given shared
    ///   ([`DeviceSlice`](crate::DeviceSlice), `&Buffer`) it must not write.
    /// - Addresses that are passed as numbers must be valid in `stream`'s order until the kernel has ended.
    /// - `stream` must be of the module's context.
    #[doc(alias = "cuLaunchKernel")]
    pub unsafe fn launch(&self, stream: &Stream, config: LaunchConfig, arguments: &impl Arguments) -> Result<()> {
        let functions = stream.driver().functions();
        stream.driver().ensure_same(self.module.loaded.context.driver())?;
        stream.ensure_ordered()?;
        arguments.with_packed(|homes, packed| {
            let mut foreign: Vec<&Stream> = Vec::new();
            for home in homes.iter().copied() {
                let Some(home) = home? else { continue };
                home.ensure_ordered()?;
                stream.driver().ensure_same(home.driver())?;
                if !home.is_same(stream) && !foreign.iter().any(|known| known.is_same(home)) {
                    foreign.push(home);
                }
            }
            for home in &foreign {
                order::fence(home, stream)?;
                stream.fence_event()?;
            }
            // SAFETY: the function is live as long as this value; the caller vouches for the rest.
            let launched = unsafe {
                raw::module::launch_kernel(
                    functions,
                    self.raw,
                    (config.grid, config.block),
                    config.shared_bytes,
                    stream.as_raw(),
                    packed.as_mut_ptr(),
                )
            };
            foreign.iter().fold(launched, |result, home| result.and(order::give_back_or_lose(stream, home)))
        })
    }

    /// An attribute of the compiled kernel: registers, shared memory, threads for a block at most.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn attribute(&self, attribute: CUfunction_attribute) -> Result<i32> {
        let functions = self.module.loaded.context.driver().functions();
        // SAFETY: the function is live as long as this value.
        unsafe { raw::module::func_get_attribute(functions, self.raw, attribute) }
    }

    /// Lets launches have up to `bytes` of dynamic shared memory for a block, beyond the 48 KiB that need no asking.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set_max_dynamic_shared_bytes(&self, bytes: u32) -> Result<()> {
        let functions = self.module.loaded.context.driver().functions();
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function is live as long as this value.
        unsafe { raw::module::func_set_attribute(functions, self.raw, attribute, bytes) }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("raw", &self.loaded.raw).field("context", &self.loaded.context).finish()
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("raw", &self.raw).field("module", &self.module).finish()
    }
}
