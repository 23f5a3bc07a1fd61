//! A part of somebody's memory that is page-locked, as another library in the process may have done.

use core::ptr;

use cupool::Context;

/// Page-locked until it is dropped.
pub(crate) struct RegisteredPart<'a> {
    context: &'a Context,
    start: *mut u8,
}

impl<'a> RegisteredPart<'a> {
    /// `len` elements of `slice` from `start` on; they must be live until this is dropped.
    pub(crate) fn of<T>(context: &'a Context, slice: &mut [T], start: usize, len: usize) -> Self {
        let part = &mut slice[start..start + len];
        let (start, bytes): (*mut u8, usize) = (ptr::from_mut(part).cast(), size_of_val(part));
        let register = context.driver().functions().cuMemHostRegister.unwrap();
        // SAFETY: the memory is there.
        let code = context.with_current(|| Ok(unsafe { register(start.cast(), bytes, 0) })).unwrap();
        assert_eq!(code.0, 0);
        Self { context, start }
    }
}

impl Drop for RegisteredPart<'_> {
    fn drop(&mut self) {
        let unregister = self.context.driver().functions().cuMemHostUnregister.unwrap();
        // SAFETY: registered when this was made.
        let code = self.context.with_current(|| Ok(unsafe { unregister(self.start.cast()) })).unwrap();
        assert_eq!(code.0, 0);
    }
}
