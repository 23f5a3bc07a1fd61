//! The structures of DLPack's C header, version 1, as they lie in memory.
//!
//! Codes are newtypes with constants, not enums: producers may send ones that are newer than this crate.

#![allow(non_upper_case_globals, reason = "the header's names")]

use core::ffi::c_void;

/// The major version whose layout this is.
pub const DLPACK_MAJOR_VERSION: u32 = 1;
/// The minor version whose codes these are; a tensor of another can be read too.
pub const DLPACK_MINOR_VERSION: u32 = 0;

/// Bit of [`DLManagedTensorVersioned::flags`]: nobody may write the memory.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;
/// Bit of [`DLManagedTensorVersioned::flags`]: the memory is a copy that the producer made for the consumer.
pub const DLPACK_FLAG_BITMASK_IS_COPIED: u64 = 1 << 1;

/// The version of a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Counts layouts.
    pub major: u32,
    /// Counts additions to the codes.
    pub minor: u32,
}

/// A kind of device.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDeviceType(pub i32);

impl DLDeviceType {
    /// Host memory.
    pub const kDLCPU: Self = Self(1);
    /// A CUDA device's memory.
    pub const kDLCUDA: Self = Self(2);
    /// Page-locked host memory of CUDA.
    pub const kDLCUDAHost: Self = Self(3);
    /// Managed memory of CUDA.
    pub const kDLCUDAManaged: Self = Self(13);
}

/// A device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// Its kind.
    pub device_type: DLDeviceType,
    /// Its number; 0 for host and managed memory.
    pub device_id: i32,
}

/// A kind of element.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataTypeCode(pub u8);

impl DLDataTypeCode {
    /// Signed integers.
    pub const kDLInt: Self = Self(0);
    /// Unsigned integers.
    pub const kDLUInt: Self = Self(1);
    /// IEEE floating point.
    pub const kDLFloat: Self = Self(2);
    /// The upper half of an IEEE `f32`.
    pub const kDLBfloat: Self = Self(4);
    /// Pairs of a real and an imaginary part.
    pub const kDLComplex: Self = Self(5);
    /// Truth values, of one byte.
    pub const kDLBool: Self = Self(6);
}

/// A type of elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// Their kind.
    pub code: DLDataTypeCode,
    /// The bits of one lane.
    pub bits: u8,
    /// 1, but for vectors.
    pub lanes: u16,
}

/// A tensor that somebody else keeps.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The device address before `byte_offset` is added.
    pub data: *mut c_void,
    /// Where the memory is.
    pub device: DLDevice,
    /// How many dimensions there are.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The length of each dimension.
    pub shape: *mut i64,
    /// How many elements lie between neighbours in each dimension; null stands for row-major order.
    pub strides: *mut i64,
    /// What to add to `data`.
    pub byte_offset: u64,
}

/// A tensor with its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Tells the layout of what follows `flags`.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Ends the tensor, this structure included.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// Bits, such as [`DLPACK_FLAG_BITMASK_READ_ONLY`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;

    assert!(size_of::<DLDevice>() == 8 && size_of::<DLDataType>() == 4 && size_of::<DLPackVersion>() == 8);
    assert!(offset_of!(DLTensor, data) == 0 && offset_of!(DLTensor, device) == 8);
    assert!(offset_of!(DLTensor, ndim) == 16 && offset_of!(DLTensor, dtype) == 20);
    assert!(offset_of!(DLTensor, shape) == 24 && offset_of!(DLTensor, strides) == 32);
    assert!(offset_of!(DLTensor, byte_offset) == 40 && size_of::<DLTensor>() == 48);
    assert!(offset_of!(DLManagedTensorVersioned, version) == 0);
    assert!(offset_of!(DLManagedTensorVersioned, manager_ctx) == 8);
    assert!(offset_of!(DLManagedTensorVersioned, deleter) == 16);
    assert!(offset_of!(DLManagedTensorVersioned, flags) == 24);
    assert!(offset_of!(DLManagedTensorVersioned, dl_tensor) == 32);
    assert!(size_of::<DLManagedTensorVersioned>() == 80);
};
