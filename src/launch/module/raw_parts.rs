//! Modules and functions to and from raw parts.

use core::{mem::ManuallyDrop, ptr};
use std::sync::Arc;

use cuda_sys::{CUfunction, CUmodule};

use super::{Function, Loaded, Module};
use crate::Context;

impl Module {
    /// Gives up the module and the retain of its context, if this is the last that is left of it: its clones and its
    /// functions share it.
    ///
    /// # Errors
    /// The module itself, where it is shared.
    pub fn into_raw_parts(self) -> Result<(CUmodule, Context), Self> {
        let loaded = ManuallyDrop::new(Arc::try_unwrap(self.loaded).map_err(|loaded| Self { loaded })?);
        // SAFETY: `loaded` is never used or dropped again.
        Ok((loaded.raw, unsafe { ptr::read(&raw const loaded.context) }))
    }

    /// Takes over the module `raw` of `context`.
    ///
    /// # Safety
    /// `raw` must be a live module that was loaded into `context`, and the caller must own it.
    #[must_use]
    pub unsafe fn from_raw_parts(raw: CUmodule, context: Context) -> Self {
        Self { loaded: Arc::new(Loaded { raw, context }) }
    }
}

impl Function {
    /// The function, and what is left of its module here.
    #[must_use]
    pub fn into_raw_parts(self) -> (CUfunction, Module) {
        (self.raw, self.module)
    }

    /// The function `raw` of `module`.
    ///
    /// # Safety
    /// `raw` must be a function of that module.
    #[must_use]
    pub const unsafe fn from_raw_parts(raw: CUfunction, module: Module) -> Self {
        Self { raw, module }
    }
}
