//! What a C caller passes: out-parameters, inputs and plain values, taken over once, at the entry point.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::*;

use crate::state::Answer;

/// An argument as the implementation wants it, made from the argument as C passes it.
pub(crate) trait Arg<C> {
    /// Takes over the argument.
    ///
    /// # Safety
    /// The argument must be one that the driver's documentation allows for this entry point; a pointer must be null
    /// or valid for the call.
    unsafe fn take(c: C) -> Self;
}

/// An out-parameter: null, or valid for writes during the call.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A pointer of another kind, which is null or valid during the call all the same.
    pub(crate) const fn at(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Writes the result; a null pointer is an invalid value.
    pub(crate) fn set(&self, value: T) -> Answer {
        self.required()?;
        self.set_if_wanted(value);
        Ok(())
    }

    /// Writes the result unless the caller passed null, where the driver allows that.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: `Arg::take` promises that a non-null pointer is valid for writes during the call.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// Refuses null.
    pub(crate) const fn required(&self) -> Answer {
        if self.0.is_null() { Err(CUresult::CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
    }

    /// What the caller left there, for parameters that go both ways.
    pub(crate) fn get(&self) -> Result<T, CUresult>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// The same place, as another type: what attribute calls do with `void *`.
    pub(crate) const fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Writes `values` one after the other.
    pub(crate) fn set_all(&self, values: impl Iterator<Item = T>) -> Answer {
        self.required()?;
        for (at, value) in values.enumerate() {
            // SAFETY: `Arg::take` promises room for as many values as the caller asked for.
            unsafe { self.0.add(at).write_unaligned(value) }
        }
        Ok(())
    }
}

/// An input: null, or valid for reads during the call.
pub(crate) struct In<T>(*const T);

impl<T> In<T> {
    /// Reads it; a null pointer is an invalid value.
    pub(crate) fn get(&self) -> Result<T, CUresult>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: `Arg::take` promises that a non-null pointer is valid for reads during the call.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The `at`-th element of an array; a null pointer is an invalid value.
    pub(crate) fn at(&self, at: usize) -> Result<T, CUresult>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: as for `get`; the caller passed the array's length in the same call, and `at` is below it.
        Ok(unsafe { self.0.add(at).read_unaligned() })
    }

    /// Whether the caller passed null.
    pub(crate) const fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    /// A name, as UTF-8.
    pub(crate) fn text(&self) -> Result<String, CUresult> {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: `Arg::take` promises a terminated string.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Host memory that outlives the call, as the caller promises for asynchronous operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostPointer(pub(crate) *mut u8);

// SAFETY: only an address; every access is justified where it is made.
unsafe impl Send for HostPointer {}
// SAFETY: as above.
unsafe impl Sync for HostPointer {}

impl HostPointer {
    /// The address, to compare with.
    pub(crate) fn address(self) -> u64 {
        self.0.addr() as u64
    }

    /// The pointer `bytes` further on.
    pub(crate) fn add(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl<T> Arg<*mut T> for Out<T> {
    unsafe fn take(c: *mut T) -> Self {
        Self(c)
    }
}

impl<T> Arg<*mut T> for In<T> {
    unsafe fn take(c: *mut T) -> Self {
        Self(c.cast_const())
    }
}

impl<T> Arg<*const T> for In<T> {
    unsafe fn take(c: *const T) -> Self {
        Self(c)
    }
}

impl Arg<*mut c_void> for HostPointer {
    unsafe fn take(c: *mut c_void) -> Self {
        Self(c.cast())
    }
}

impl Arg<*const c_void> for HostPointer {
    unsafe fn take(c: *const c_void) -> Self {
        Self(c.cast_mut().cast())
    }
}

impl<T> Arg<*mut T> for *mut T {
    unsafe fn take(c: *mut T) -> Self {
        c
    }
}

macro_rules! plain {
    ($($type:ty),* $(,)?) => { $(
        impl Arg<$type> for $type {
            unsafe fn take(c: $type) -> Self {
                c
            }
        }
    )* };
}

plain! {
    u8, u16, c_uint, c_int, usize, c_ulonglong, CUhostFn, CUipcEventHandle_v1, CUmemLocation, CUresult,
    CUdevice_attribute, CUpointer_attribute, CUfunction_attribute, CUmemPool_attribute, CUgraphMem_attribute,
    CUmem_advise, CUmem_range_attribute, CUstreamCaptureMode, CUmemAllocationHandleType, CUmemAllocationType,
}
