//! A part of somebody's memory that is page-locked, as another library in the process may have done.

use core::ptr;

use cupool::Context;

/// Page-locked until it is dropped.
pub(crate) struct RegisteredPart<'a> {
    context: &'a Context,
    start: *mut u8,
}

impl<'a> RegisteredPart<'a> {
    /// Of `bytes` bytes from `start`, which must be live until this is dropped.
    pub(crate) fn new(context: &'a Context, start: *mut u8, bytes: usize) -> Self {
        let register = context.driver().functions().cuMemHostRegister.unwrap();
        // SAFETY: the driver refuses memory that is not there.
        context.with_current(|| Ok(assert_eq!(unsafe { register(start.cast(), bytes, 0) }.0, 0))).unwrap();
        Self { context, start }
    }

    /// The part of `slice` from `start` on.
    pub(crate) fn of<T>(context: &'a Context, slice: &mut [T], start: usize, len: usize) -> Self {
        let part = &mut slice[start..start + len];
        Self::new(context, ptr::from_mut(part).cast(), size_of_val(part))
    }
}

impl Drop for RegisteredPart<'_> {
    fn drop(&mut self) {
        let unregister = self.context.driver().functions().cuMemHostUnregister.unwrap();
        // SAFETY: registered when this was made.
        self.context.with_current(|| Ok(assert_eq!(unsafe { unregister(self.start.cast()) }.0, 0))).unwrap();
    }
}
