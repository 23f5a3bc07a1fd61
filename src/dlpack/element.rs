//! The types of elements that the protocol has names for.

use bytemuck::{Pod, Zeroable};

use super::ffi::{DLDataType, DLDataTypeCode as Code};

/// A type of elements that a DLPack tensor can have.
///
/// # Safety
/// `DATA_TYPE` must describe the type: its size is `bits * lanes` bits, and any bytes that others write as elements of
/// that description are a valid value.
pub unsafe trait DlElement: Pod + Send + Sync {
    /// How the protocol calls it.
    const DATA_TYPE: DLDataType;
}

/// The bits of an IEEE 754 half-precision number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F16(pub u16);

/// The bits of a bfloat16 number: the upper half of an `f32`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bf16(pub u16);

/// A truth value of one byte, 0 or 1. (A Rust `bool` of any other byte would be undefined behaviour, and what others
/// write nobody checks.)
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bool(pub u8);

macro_rules! elements {
    ($($element:ty: $code:ident;)*) => { $(
        // SAFETY: the code is that of the type, which has as many bits as are said and no invalid values.
        unsafe impl DlElement for $element {
            const DATA_TYPE: DLDataType =
                DLDataType { code: Code::$code, bits: (8 * size_of::<$element>()) as u8, lanes: 1 };
        }
    )* };
}

elements! {
    i8: kDLInt; i16: kDLInt; i32: kDLInt; i64: kDLInt;
    u8: kDLUInt; u16: kDLUInt; u32: kDLUInt; u64: kDLUInt;
    f32: kDLFloat; f64: kDLFloat;
    F16: kDLFloat; Bf16: kDLBfloat; Bool: kDLBool;
}

macro_rules! plain {
    ($($element:ty),*) => { $(
        // SAFETY: a transparent number, for which zero is valid.
        unsafe impl Zeroable for $element {}
        // SAFETY: a transparent number: no padding, no invalid values, no references.
        unsafe impl Pod for $element {}
    )* };
}

plain!(F16, Bf16, Bool);
