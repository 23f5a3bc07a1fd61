//! Memory that is page-locked where it lies.

use core::{
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
};

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use crate::{Context, Error, Result, raw, release};

/// Host memory that is page-locked for as long as this exists: a borrowed slice, or an owned `Vec` or boxed slice.
///
/// Copies of this crate treat it like any other slice. What it is for are kernels and other libraries that want the
/// device to reach host memory, or copy faster from it; those must be done with it before it is dropped.
#[doc(alias = "cuMemHostUnregister")]
pub struct Registered<M: DerefMut<Target = [T]>, T: Pod> {
    /// Dropped by hand: memory that may still be registered is leaked.
    memory: ManuallyDrop<M>,
    /// `None` where there is nothing to register.
    context: Option<Context>,
}

impl<T: Pod> Registered<Vec<T>, T> {
    /// Page-locks the elements of `memory`, which comes back if that fails.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(alias = "cuMemHostRegister")]
    pub fn from_vec(context: &Context, memory: Vec<T>) -> Result<Self, (Error, Vec<T>)> {
        // SAFETY: a vector's elements stay where they are while nobody changes its length, which nobody here can; if
        // this value is forgotten, so is the vector.
        unsafe { Self::new(context, memory) }
    }

    /// The vector, page-locked no more.
    ///
    /// # Errors
    /// Whatever the driver answers; the vector, which may still be registered, is leaked then.
    pub fn into_vec(self) -> Result<Vec<T>> {
        let mut this = ManuallyDrop::new(self);
        let context = this.context.take();
        this.unregister(context.as_ref())?;
        // SAFETY: `this` is never used or dropped again.
        Ok(unsafe { ManuallyDrop::take(&mut this.memory) })
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> Registered<M, T> {
    /// Page-locks `memory`. It comes back if that fails.
    ///
    /// # Errors
    /// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED` if a part of it is registered already; [`Error::HostMemory`] if so
    /// much cannot be page-locked; else whatever the driver answers.
    ///
    /// # Safety
    /// `memory` must deref to the same slice every time, wherever it is moved, for as long as it exists: true of
    /// `&mut [T]`, `Vec<T>` and `Box<[T]>`. The registration must not be forgotten while the memory is not: memory that
    /// is freed while it is registered is used by the driver all the same.
    #[doc(alias = "cuMemHostRegister")]
    pub unsafe fn new(context: &Context, mut memory: M) -> Result<Self, (Error, M)> {
        let (address, bytes) = (memory.as_mut_ptr(), size_of_val::<[T]>(&memory));
        if bytes == 0 {
            return Ok(Self { memory: ManuallyDrop::new(memory), context: None });
        }
        let context = match context.try_clone() {
            Ok(context) => context,
            Err(error) => return Err((error, memory)),
        };
        let functions = context.driver().functions();
        // SAFETY: the memory is live, and kept until `drop` has unregistered it; the context is current.
        let registered =
            context.with_current(|| unsafe { raw::host::mem_host_register(functions, address.cast(), bytes) });
        match registered {
            Ok(()) => Ok(Self { memory: ManuallyDrop::new(memory), context: Some(context) }),
            Err(error) if error.code() == Some(cuda_sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                Err((Error::HostMemory { bytes }, memory))
            }
            Err(error) => Err((error, memory)),
        }
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> Registered<M, T> {
    /// The address under which kernels of the context's device reach the elements; 0 if there is none. What they do
    /// there must be done before the elements are looked at and before this is dropped.
    ///
    /// # Errors
    /// Whatever the driver answers.
    #[doc(alias = "cuMemHostGetDevicePointer")]
    pub fn device_address(&self) -> Result<CUdeviceptr_v2> {
        let Some(context) = &self.context else { return Ok(0) };
        let (address, functions) = (self.memory.as_ptr().cast_mut(), context.driver().functions());
        // SAFETY: the memory is registered for as long as this exists.
        context.with_current(|| unsafe { raw::host::mem_host_get_device_pointer(functions, address.cast()) })
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> Deref for Registered<M, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> DerefMut for Registered<M, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> Registered<M, T> {
    /// At most once, with the context that was there.
    fn unregister(&mut self, context: Option<&Context>) -> Result<()> {
        let Some(context) = context else { return Ok(()) };
        let address = self.memory.as_mut_ptr();
        let functions = context.driver().functions();
        // SAFETY: registered when this was made, and not unregistered before. The driver waits for what the device
        // still does with it.
        let unregister = || unsafe { raw::host::mem_host_unregister(functions, address.cast()) };
        context.with_current(unregister)
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> Drop for Registered<M, T> {
    fn drop(&mut self) {
        let context = self.context.take();
        let unregistered = self.unregister(context.as_ref());
        if unregistered.as_ref().err().is_none_or(release::is_over) {
            // SAFETY: never used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
        release::report(unregistered);
    }
}

impl<M: DerefMut<Target = [T]>, T: Pod> fmt::Debug for Registered<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("len", &self.memory.len()).field("context", &self.context).finish()
    }
}
