//! C functions that hand cupool's buffers out as DLPack tensors and take tensors in; `torch_check.py` calls them.
//!
//! Each answers null or a negative number when it fails; [`cupool_error`] then says why. Whoever calls passes pointers
//! that these functions made, each to the one that ends it at most once.

use core::{
    cell::RefCell,
    ffi::{c_char, c_int},
    ptr, slice,
};
use std::sync::Arc;

use cupool::{
    Buffer, Context, Driver, MemPool, Result, Stream,
    dlpack::{ConsumerStream, ImportedTensor, ManagedTensor, ffi::DLManagedTensorVersioned},
    release_failures,
};

/// A device, and a stream and a pool on it.
pub struct Session {
    context: Context,
    stream: Arc<Stream>,
    pool: MemPool,
}

/// A matrix in device memory.
pub struct Matrix {
    buffer: Buffer<f32>,
    shape: [usize; 2],
}

thread_local! {
    static ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The value, or `failed` and the error remembered for this thread.
fn or<T>(failed: T, work: impl FnOnce() -> Result<T>) -> T {
    work().unwrap_or_else(|error| {
        ERROR.set(error.to_string());
        failed
    })
}

/// Copies what the last failure on this thread was about, cut off where `capacity` ends; returns its length.
///
/// # Safety
/// `text` must be valid for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_error(text: *mut c_char, capacity: usize) -> usize {
    ERROR.with_borrow(|error| {
        let len = error.len().min(capacity);
        // SAFETY: as the caller says, and the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(error.as_ptr(), text.cast(), len) };
        error.len()
    })
}

/// Opens a device. `CUPOOL_DRIVER_LIBRARY` may name another driver than the system's.
#[unsafe(no_mangle)]
pub extern "C" fn cupool_open(device: u32) -> *mut Session {
    or(ptr::null_mut(), || {
        let device = Driver::load()?.device(device)?;
        let context = device.primary_context()?;
        let stream = Arc::new(Stream::new(&context)?);
        let pool = MemPool::new(&device)?;
        Ok(Box::into_raw(Box::new(Session { context, stream, pool })))
    })
}

/// Ends a session; what it has handed out lives on.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_close(session: *mut Session) {
    // SAFETY: made by `cupool_open`, and ended once.
    drop(unsafe { Box::from_raw(session) });
}

/// The session's stream as the protocol names it, to be passed to `__dlpack__`.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_stream(session: *const Session) -> usize {
    // SAFETY: a live session.
    unsafe { &*session }.stream.as_raw().addr()
}

/// Makes a matrix of the numbers from 0.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_matrix(session: *const Session, rows: usize, columns: usize) -> *mut Matrix {
    // SAFETY: a live session.
    let session = unsafe { &*session };
    or(ptr::null_mut(), || {
        let numbers: Vec<f32> = (0..rows.saturating_mul(columns)).map(|number| number as f32).collect();
        let buffer = session.pool.alloc_from_host(&numbers, Arc::clone(&session.stream))?;
        Ok(Box::into_raw(Box::new(Matrix { buffer, shape: [rows, columns] })))
    })
}

/// The matrix's device address.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_address(matrix: *const Matrix) -> u64 {
    // SAFETY: a live matrix.
    unsafe { &*matrix }.buffer.as_raw()
}

/// Frees a matrix that was not exported.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_free(matrix: *mut Matrix) {
    // SAFETY: made by `cupool_matrix`, and ended once.
    drop(unsafe { Box::from_raw(matrix) });
}

/// Makes a tensor of the matrix, for a consumer on this stream of the protocol. The matrix is used up, also by a failure.
///
/// # Safety
/// As the module says; a stream that is named by its handle must live until the tensor's deleter has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_export(
    matrix: *mut Matrix,
    stream: i64,
    read_only: c_int,
) -> *mut DLManagedTensorVersioned {
    // SAFETY: made by `cupool_matrix`, and ended once.
    let Matrix { buffer, shape } = *unsafe { Box::from_raw(matrix) };
    or(ptr::null_mut(), || {
        // SAFETY: as the caller says.
        let consumer = unsafe { ConsumerStream::from_protocol(stream) }?;
        let mut tensor = buffer.into_dlpack(&shape, consumer).map_err(|(error, _)| error)?;
        if read_only != 0 {
            tensor.set_read_only();
        }
        Ok(tensor.into_raw())
    })
}

/// Calls the deleter of a tensor that nobody took.
///
/// # Safety
/// The tensor must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: as the caller says.
    drop(unsafe { ManagedTensor::from_raw(tensor) });
}

/// Takes a tensor of `f32`s whose producer was given the session's stream: copies its elements to `elements`, sets them to
/// `value` if that is a number, and lets go of it. Returns how many there are; nothing is copied if there are more than
/// `capacity`.
///
/// # Safety
/// The tensor must be the caller's, and its memory be ready in the order of the session's stream; `elements` must be valid for
/// `capacity` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_take(
    session: *const Session,
    tensor: *mut DLManagedTensorVersioned,
    elements: *mut f32,
    capacity: usize,
    value: f32,
) -> isize {
    // SAFETY: a live session.
    let session = unsafe { &*session };
    or(-1, || {
        // SAFETY: as the caller says.
        let mut tensor = unsafe { ImportedTensor::<f32, _>::from_raw(tensor, &*session.stream) }?;
        let len = tensor.len();
        if len <= capacity {
            // SAFETY: as the caller says.
            tensor.as_slice().copy_to_host(unsafe { slice::from_raw_parts_mut(elements, len) })?;
        }
        if !value.is_nan() {
            tensor.as_mut_slice()?.fill(value)?;
        }
        Ok(isize::try_from(len).unwrap_or(isize::MAX))
    })
}

/// Waits for everything, lets go of what was taken, and returns how many bytes of the pool are in use.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cupool_settle(session: *const Session) -> i64 {
    // SAFETY: a live session.
    let session = unsafe { &*session };
    or(-1, || {
        session.context.synchronize()?;
        session.context.drop_retired()?;
        Ok(i64::try_from(session.pool.usage()?.used).unwrap_or(i64::MAX))
    })
}

/// How many releases have failed in this process.
#[unsafe(no_mangle)]
pub extern "C" fn cupool_release_failures() -> u64 {
    release_failures()
}
