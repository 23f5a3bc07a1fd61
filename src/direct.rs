//! Direct copies: of large slices of ordinary memory, between which and the device the driver copies best by itself.
//!
//! It stages them too, with means that this crate lacks, so that from some size on [staging](crate::staging) is slower. That is
//! sound where the device has no way to the slice: where it cannot reach ordinary memory at all, and the slice is not
//! page-locked. Then whatever touches the slice is the driver's own code, which is done when the call returns; CUDA
//! promises that of copies to the host, and of those from it that the source has been read unless the driver waits for the
//! stream first. As the second is no plain promise, and pages in the middle of a slice may be locked, which nobody can ask
//! about, the stream is waited for besides: as staging would have to, whose blocks are no larger than this together.

use cuda_sys::{CUdeviceptr_v2, CUmemorytype_enum, CUpointer_attribute, CUresult};

use crate::{Driver, Result, Stream, order, raw, staging};

/// Bytes from which a slice is copied directly.
pub(crate) const LEAST: usize = 4 << 20;

const _: () = assert!(LEAST >= staging::ALL, "a smaller copy has no need to wait for the device");

/// Enqueues a copy of `source` to `destination`; the source has been read when this returns.
///
/// # Safety
/// `destination` must be valid for as many bytes in `stream`'s order, and `stream` not be capturing.
pub(crate) unsafe fn copy_from_host(stream: &Stream, destination: CUdeviceptr_v2, source: &[u8]) -> Result<()> {
    if is_for_the_driver(stream, source) {
        let functions = stream.driver().functions();
        // SAFETY: the destination is valid as the caller says; the source is, until the wait below.
        let copied = unsafe {
            raw::memory::memcpy_htod_async(
                functions,
                destination,
                source.as_ptr().cast(),
                source.len(),
                stream.as_raw(),
            )
        };
        if let Some(copied) = waited_for(stream, copied) {
            return copied;
        }
    }
    // SAFETY: as the caller says.
    unsafe { staging::copy_from_host(stream, destination, source) }
}

/// Copies from `source`, and waits until `destination` holds it.
///
/// # Safety
/// `source` must be valid for as many bytes in `stream`'s order, and `stream` not be capturing.
pub(crate) unsafe fn copy_to_host(stream: &Stream, source: CUdeviceptr_v2, destination: &mut [u8]) -> Result<()> {
    if is_for_the_driver(stream, destination) {
        let functions = stream.driver().functions();
        // SAFETY: the source is valid as the caller says; the destination is, and nobody looks at it, until the wait
        // below.
        let copied = unsafe {
            raw::memory::memcpy_dtoh_async(
                functions,
                destination.as_mut_ptr().cast(),
                source,
                destination.len(),
                stream.as_raw(),
            )
        };
        if let Some(copied) = waited_for(stream, copied) {
            return copied;
        }
    }
    // SAFETY: as the caller says.
    unsafe { staging::copy_to_host(stream, source, destination) }
}

/// Whether the slice is large, and the device has no way to it, as far as can be asked.
fn is_for_the_driver(stream: &Stream, slice: &[u8]) -> bool {
    slice.len() >= LEAST
        && stream.context().device().pageable_memory_access() == Ok(false)
        && [slice.first(), slice.last()].into_iter().flatten().all(|byte| is_ordinary(stream.driver(), byte))
}

/// Whether the driver does not know the memory.
fn is_ordinary(driver: Driver, byte: &u8) -> bool {
    let mut kind = CUmemorytype_enum(0);
    let address = core::ptr::from_ref(byte).addr() as CUdeviceptr_v2;
    // SAFETY: the value is of the attribute's type; the memory is borrowed, so nobody has freed it.
    let asked = unsafe {
        raw::pointer::pointer_get_attributes(
            driver.functions(),
            [CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE],
            [(&raw mut kind).cast()],
            address,
        )
    };
    asked.is_ok() && kind == CUmemorytype_enum(0)
}

/// What became of a copy, once nothing of it is pending; `None` if the driver refused it, as it does where the slice begins
/// with registered pages and goes on without.
fn waited_for(stream: &Stream, copied: Result<()>) -> Option<Result<()>> {
    // Also after a failure: the driver does not promise that a failed call has enqueued nothing.
    let waited = order::wait_on_host(stream);
    match copied {
        Err(error) if error.code() == Some(CUresult::CUDA_ERROR_INVALID_VALUE) => None,
        copied => Some(copied.and(waited)),
    }
}
