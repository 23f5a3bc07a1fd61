//! What a kernel can be given, and how it is packed.

use core::ffi::c_void;

use bytemuck::Pod;
use cuda_sys::CUdeviceptr_v2;

use crate::{Buffer, DeviceSlice, DeviceSliceMut, Error, Loan, SharedLoan, Stream, StreamHandle};

/// One argument of a kernel: a number or a structure, passed as it is, or device memory, passed as its address.
///
/// Sealed: what an argument is in memory must be what the driver reads.
pub trait Argument: sealed::Sealed {}

impl From<sealed::Lost> for Error {
    fn from(_: sealed::Lost) -> Self {
        Self::LoanForgotten
    }
}

/// All arguments of a kernel: a tuple of up to twelve.
///
/// Numbers must be of the parameters' own types: the driver reads as many bytes as the parameter has.
pub trait Arguments: sealed::All {}

pub(super) mod sealed {
    use super::{Stream, c_void};

    pub trait Sealed {
        /// What the driver reads.
        type Packed;
        fn pack(&self) -> Self::Packed;
        /// Where the memory is at home, if it is memory; fails if it must not be used.
        fn home(&self) -> Home<'_>;
    }

    pub(crate) type Home<'a> = Result<Option<&'a Stream>, Lost>;

    /// The memory was given up.
    #[derive(Clone, Copy)]
    pub struct Lost;

    pub trait All {
        /// Calls `use_them` with the homes of what is memory, and the addresses of the packed arguments.
        fn with_packed<R>(&self, use_them: impl FnOnce(&[Home<'_>], &mut [*mut c_void]) -> R) -> R;
    }
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Argument for $number {}
        impl sealed::Sealed for $number {
            type Packed = Self;
            fn pack(&self) -> Self {
                *self
            }
            fn home(&self) -> sealed::Home<'_> {
                Ok(None)
            }
        }
    )* };
}
numbers!(bool u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64);

/// A structure, passed by value: plain data, laid out as the kernel's parameter is (`#[repr(C)]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByValue<T: Pod>(pub T);

impl<T: Pod> Argument for ByValue<T> {}
impl<T: Pod> sealed::Sealed for ByValue<T> {
    type Packed = T;
    fn pack(&self) -> T {
        self.0
    }
    fn home(&self) -> sealed::Home<'_> {
        Ok(None)
    }
}

macro_rules! memory {
    ($( [$($generics:tt)*] $memory:ty: $self:ident => $home:expr; )*) => { $(
        impl<$($generics)*> Argument for $memory {}
        impl<$($generics)*> sealed::Sealed for $memory {
            type Packed = CUdeviceptr_v2;
            fn pack(&self) -> CUdeviceptr_v2 {
                self.as_raw()
            }
            fn home(&self) -> sealed::Home<'_> {
                let $self = self;
                $home
            }
        }
    )* };
}
memory! {
    [T: Pod] DeviceSlice<'_, T>: view => home_of(*view);
    [T: Pod] DeviceSliceMut<'_, T>: view => home_of(view.as_slice());
    [T: Pod] &mut DeviceSliceMut<'_, T>: view => home_of(view.as_slice());
    [T: Pod, S: StreamHandle] &Buffer<T, S>: buffer => home_of(buffer.as_slice());
    [T: Pod, S: StreamHandle] &mut Buffer<T, S>: buffer => {
        // A loan that is out while the buffer is borrowed exclusively was forgotten.
        if buffer.is_lent() { Err(sealed::Lost) } else { home_of(buffer.as_slice()) }
    };
    [T: Pod, S: StreamHandle] &SharedLoan<'_, T, S>: loan => home_of(loan.as_slice());
    [T: Pod, S: StreamHandle] &Loan<'_, T, S>: loan => home_of(loan.as_slice());
    [T: Pod, S: StreamHandle] &mut Loan<'_, T, S>: loan => home_of(loan.as_slice());
}

/// Memory of no bytes has no home that matters.
fn home_of<T: Pod>(view: DeviceSlice<'_, T>) -> sealed::Home<'_> {
    match (view.byte_len(), view.as_raw()) {
        (0, _) => Ok(None),
        (_, 0) => Err(sealed::Lost),
        _ => Ok(Some(view.home())),
    }
}

macro_rules! tuples {
    ($( ($($name:ident)*) )*) => { $(
        impl<$($name: Argument),*> Arguments for ($($name,)*) {}
        #[allow(non_snake_case, unused_mut, clippy::unused_unit, reason = "for the tuple of none, and one name for both")]
        impl<$($name: Argument),*> sealed::All for ($($name,)*) {
            fn with_packed<R>(&self, use_them: impl FnOnce(&[sealed::Home<'_>], &mut [*mut c_void]) -> R) -> R {
                let ($($name,)*) = self;
                let homes: &[sealed::Home<'_>] = &[$($name.home()),*];
                $( let mut $name = $name.pack(); )*
                use_them(homes, &mut [$( (&raw mut $name).cast() ),*])
            }
        }
    )* };
}
tuples! {
    ()
    (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
    (A B C D E F G H I) (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L)
}
