//! DLPack tensors of others: taken over whole, or refused with their deleter called; in any case it is called once.

use core::{ffi::c_void, ptr};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use cupool::{
    Buffer, Error, Result, Stream,
    dlpack::{
        ConsumerStream, DlpackError, ImportedTensor, ManagedTensor,
        ffi::{
            DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensorVersioned,
            DLPACK_FLAG_BITMASK_READ_ONLY, DLPackVersion, DLTensor,
        },
    },
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::fixture::{Fixture, assert_no_findings};

/// Another library's tensor of `f32`s, which frees its memory at once.
struct Theirs {
    tensor: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    _memory: Option<Buffer<f32>>,
    deleted: Arc<AtomicUsize>,
}

impl Theirs {
    fn new(shape: &[i64], memory: Option<Buffer<f32>>) -> Self {
        let data = memory.as_ref().map_or(0x1000, Buffer::as_raw);
        let tensor = DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 3 },
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: DLTensor {
                data: at(data),
                device: DLDevice { device_type: DLDeviceType::kDLCUDA, device_id: 0 },
                ndim: shape.len() as i32,
                dtype: DLDataType { code: DLDataTypeCode::kDLFloat, bits: 32, lanes: 1 },
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            },
        };
        Self { tensor, shape: shape.to_vec(), strides: None, _memory: memory, deleted: Arc::default() }
    }

    fn strides(mut self, strides: &[i64]) -> Self {
        self.strides = Some(strides.to_vec());
        self
    }

    fn with(mut self, change: impl FnOnce(&mut DLManagedTensorVersioned)) -> Self {
        change(&mut self.tensor);
        self
    }

    /// Gives it away, with a shape unless it is to have none; and how often it was deleted.
    fn give(self, has_shape: bool) -> (*mut DLManagedTensorVersioned, Arc<AtomicUsize>) {
        let deleted = Arc::clone(&self.deleted);
        let raw = Box::into_raw(Box::new(self));
        // SAFETY: the box was just given up; its parts stay where they are.
        let tensor = unsafe {
            if has_shape {
                (*raw).tensor.dl_tensor.shape = (*raw).shape.as_mut_ptr();
            }
            if let Some(strides) = &mut (*raw).strides {
                (*raw).tensor.dl_tensor.strides = strides.as_mut_ptr();
            }
            (*raw).tensor.manager_ctx = raw.cast();
            &raw mut (*raw).tensor
        };
        (tensor, deleted)
    }

    fn import(self, stream: &Stream) -> (Result<ImportedTensor<f32, &Stream>>, Arc<AtomicUsize>) {
        let (raw, deleted) = self.give(true);
        // SAFETY: a tensor as the header describes it, whose memory is ready and is not used by others.
        (unsafe { ImportedTensor::from_raw(raw, stream) }, deleted)
    }
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor was made by `give`, and is deleted once.
    let theirs = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Theirs>()) };
    theirs.deleted.fetch_add(1, Ordering::Relaxed);
}

fn at(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(address as usize)
}

fn memory(fixture: &Fixture, elements: &[f32]) -> Buffer<f32> {
    let memory = fixture.pool().alloc_from_host(elements, fixture.shared_stream()).unwrap();
    memory.home().synchronize().unwrap();
    memory
}

#[test]
fn a_tensor_is_read_and_written_in_place_and_deleted_after_it() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let theirs = memory(&fixture, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let address = theirs.as_raw();
    let (tensor, deleted) = Theirs::new(&[2, 1, 3], Some(theirs)).strides(&[3, 77, 1]).import(&stream);
    let mut tensor = tensor.unwrap();
    assert_eq!((tensor.shape(), tensor.len(), tensor.is_empty()), (&[2, 1, 3][..], 6, false));
    assert!(tensor.home().is_same(&stream) && !tensor.is_read_only());
    assert_eq!(tensor.as_slice().as_raw(), address);
    assert_eq!(tensor.as_slice().to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    tensor.as_mut_slice().unwrap().slice(4..).unwrap().fill(0.5).unwrap();
    assert_eq!(tensor.as_slice().to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0, 0.5, 0.5]);
    let buffer = tensor.into_buffer().map_err(|(error, _)| error).unwrap();
    assert_eq!(deleted.load(Ordering::Relaxed), 0);
    drop(buffer);
    stream.context().drop_retired().unwrap();
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
}

#[test]
fn the_deleter_is_called_only_when_the_device_is_done() {
    for seed in 0..30 {
        let fixture = Fixture::with(Simulator::builder().seed(seed));
        let (stream, pool) = (fixture.stream(), fixture.pool());
        let mut result = pool.alloc::<f32, _>(3, &stream).unwrap();
        for value in [1.0, 2.0] {
            let (tensor, _) = Theirs::new(&[3], Some(memory(&fixture, &[value; 3]))).import(&stream);
            let mut tensor = tensor.unwrap();
            tensor.as_mut_slice().unwrap().slice(1..).unwrap().fill(7.0).unwrap();
            result.copy_from(tensor.as_slice()).unwrap();
        }
        assert_eq!(result.to_vec().unwrap(), [2.0, 7.0, 7.0]);
    }
}

#[test]
fn what_is_exported_can_be_imported() {
    let fixture = Fixture::new();
    let (home, other) = (fixture.shared_stream(), fixture.stream());
    let buffer = fixture.pool().alloc_from_host(&[1.5_f32; 12], Arc::clone(&home)).unwrap();
    let address = buffer.as_raw();
    // SAFETY: the stream outlives the tensor.
    let consumer = unsafe { ConsumerStream::from_raw(other.as_raw()) };
    let tensor = buffer.into_dlpack(&[3, 4], consumer).map_err(|(error, _)| error).unwrap();
    // SAFETY: `other` is the stream that was named.
    let mut tensor = unsafe { ImportedTensor::<f32, _>::from_managed(tensor, &other) }.unwrap();
    assert_eq!((tensor.shape(), tensor.as_slice().as_raw()), (&[3, 4][..], address));
    tensor.as_mut_slice().unwrap().slice(..6).unwrap().fill(2.5).unwrap();
    assert_eq!(tensor.as_slice().to_vec().unwrap(), [[2.5; 6], [1.5; 6]].concat());
    drop(tensor);
    other.context().drop_retired().unwrap();
    home.synchronize().unwrap();
}

#[test]
fn a_read_only_tensor_lends_no_exclusive_view() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let theirs = Theirs::new(&[2], Some(memory(&fixture, &[1.0, 2.0])));
    let (tensor, deleted) = theirs.with(|tensor| tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY).import(&stream);
    let mut tensor = tensor.unwrap();
    assert!(tensor.is_read_only());
    let read_only = Error::Dlpack(DlpackError::ReadOnly);
    assert_eq!(tensor.as_mut_slice().map(drop), Err(read_only.clone()));
    let (error, tensor) = tensor.into_buffer().map(drop).unwrap_err();
    assert_eq!((error, tensor.as_slice().to_vec()), (read_only, Ok(vec![1.0, 2.0])));
    drop(tensor);
    stream.context().drop_retired().unwrap();
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
}

#[test]
fn what_is_not_as_it_should_be_is_refused_and_deleted_once() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let refused = |theirs: Theirs| {
        let (tensor, deleted) = theirs.import(&stream);
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
        tensor.map(drop).unwrap_err()
    };
    let plain = || Theirs::new(&[2, 3], None);
    let version = DLPackVersion { major: 2, minor: 0 };
    assert_eq!(refused(plain().with(|of| of.version = version)), DlpackError::Version(version).into());
    for (device_type, device_id) in
        [(DLDeviceType::kDLCPU, 0), (DLDeviceType::kDLCUDAHost, 0), (DLDeviceType::kDLCUDA, 1), (DLDeviceType(10), 0)]
    {
        let device = DLDevice { device_type, device_id };
        assert_eq!(refused(plain().with(|of| of.dl_tensor.device = device)), DlpackError::Device(device).into());
    }
    for (code, bits, lanes) in [(2, 64, 1), (2, 32, 2), (0, 32, 1), (4, 32, 1), (99, 32, 1)] {
        let dtype = DLDataType { code: DLDataTypeCode(code), bits, lanes };
        assert_eq!(refused(plain().with(|of| of.dl_tensor.dtype = dtype)), DlpackError::DataType(dtype).into());
    }
    for ndim in [-1, i32::MIN, 65, i32::MAX] {
        assert_eq!(refused(plain().with(|of| of.dl_tensor.ndim = ndim)), DlpackError::Dimensions(ndim).into());
    }
    for shape in [&[-1, 3][..], &[i64::MIN], &[i64::MAX, 3], &[1 << 32, 1 << 32, 2]] {
        assert_eq!(refused(Theirs::new(shape, None)), DlpackError::Shape.into());
    }
    assert_eq!(refused(Theirs::new(&[i64::MAX], None)), Error::SizeOverflow { len: i64::MAX as usize, size: 4 });
    for strides in [[1, 2], [3, 2], [4, 1], [-3, 1], [0, 1], [3, 0]] {
        assert_eq!(refused(plain().strides(&strides)), DlpackError::Strides.into());
    }
    assert_eq!(refused(plain().with(|of| of.dl_tensor.byte_offset = u64::MAX)), DlpackError::ByteOffset.into());
    assert_eq!(
        refused(plain().with(|of| of.dl_tensor.byte_offset = 2)),
        Error::Misaligned { address: 0x1002, align: 4 }
    );
    assert_eq!(refused(plain().with(|of| of.dl_tensor.data = at(0))), Error::NullAddress);
    // SAFETY: there is no tensor.
    let null = unsafe { ImportedTensor::<f32, _>::from_raw(ptr::null_mut(), &stream) };
    assert_eq!(null.map(drop), Err(DlpackError::Null.into()));
    let (raw, deleted) = plain().give(false);
    // SAFETY: a tensor as the header describes it, but for its shape, which is null.
    let shapeless = unsafe { ImportedTensor::<f32, _>::from_raw(raw, &stream) };
    assert_eq!((shapeless.map(drop), deleted.load(Ordering::Relaxed)), (Err(DlpackError::Shape.into()), 1));
}

#[test]
fn a_tensor_is_deleted_once_too_if_the_driver_refuses() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    for call in [Symbol::cuCtxPushCurrent, Symbol::cuEventCreate] {
        let theirs = Theirs::new(&[2], Some(memory(&fixture, &[1.0, 2.0])));
        fixture.sim().fail(call, 0, CUresult::CUDA_ERROR_UNKNOWN);
        let (tensor, deleted) = theirs.import(&stream);
        assert!(matches!(tensor.map(drop), Err(Error::Driver(_))), "{call:?}");
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
        fixture.sim().clear_faults();
    }
}

#[test]
fn one_element_and_none_are_tensors() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (one, _) = Theirs::new(&[], Some(memory(&fixture, &[4.5]))).import(&stream);
    let one = one.unwrap();
    assert_eq!((one.shape(), one.as_slice().to_vec()), (&[][..], Ok(vec![4.5])));
    for shape in [&[0][..], &[3, 0, i64::MAX], &[i64::MAX, i64::MAX, 0]] {
        let theirs = Theirs::new(shape, None).strides(&[5; 3]).with(|of| of.dl_tensor.data = at(0));
        let (none, deleted) = theirs.import(&stream);
        let none = none.unwrap();
        assert_eq!((none.len(), none.is_empty(), none.shape().len()), (0, true, shape.len()));
        drop(none);
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
    }
    drop(one);
}

#[test]
fn the_offset_and_managed_memory_are_understood() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let theirs = Theirs::new(&[2], Some(memory(&fixture, &[1.0, 2.0, 3.0, 4.0])));
    let managed = DLDevice { device_type: DLDeviceType::kDLCUDAManaged, device_id: 0 };
    let (tensor, _) = theirs
        .with(|of| {
            of.dl_tensor.byte_offset = 8;
            of.dl_tensor.device = managed;
        })
        .import(&stream);
    assert_eq!(tensor.unwrap().as_slice().to_vec().unwrap(), [3.0, 4.0]);
}

#[test]
fn a_tensor_without_a_deleter_is_forgotten() {
    let (raw, deleted) = Theirs::new(&[2], None).with(|of| of.deleter = None).give(true);
    // SAFETY: a tensor as the header describes it.
    let tensor = unsafe { ManagedTensor::from_raw(raw) }.unwrap();
    assert_eq!(tensor.as_raw(), raw.cast_const());
    drop(tensor);
    assert_eq!(deleted.load(Ordering::Relaxed), 0);
    // SAFETY: the tensor was made by `give`, and nobody has deleted it.
    unsafe { delete(raw) };
}

/// A generator of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // The constants of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// How many elements are counted one by one.
const MODELLED: u128 = 4096;

/// What a tensor that is taken must be, worked out in another way: the address of each element, by its strides.
fn is_sound(shape: &[i64], strides: Option<&[i64]>) -> Option<u128> {
    let elements =
        shape.iter().try_fold(1_u128, |all, length| Some(all.saturating_mul(u128::try_from(*length).ok()?)))?;
    if elements == 0 || elements > MODELLED {
        return Some(elements);
    }
    let mut index = vec![0; shape.len()];
    for expected in 0..elements as i128 {
        if let Some(strides) = strides {
            let place: i128 =
                index.iter().zip(strides).map(|(at, stride): (&i64, &i64)| i128::from(*at * *stride)).sum();
            if place != expected {
                return None;
            }
        }
        for (at, length) in index.iter_mut().zip(shape).rev() {
            *at += 1;
            if *at < *length {
                break;
            }
            *at = 0;
        }
    }
    Some(elements)
}

#[test]
fn e7_whatever_a_tensor_says_it_is_taken_rightly_or_refused_and_deleted_once() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    let theirs = memory(&fixture, &[1.0; 4096]);
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut numbers = Numbers(seed);
        let lengths = [0, 1, 1, 2, 3, 4, 5, -1, 1 << 40, i64::MAX, i64::MIN];
        let shape: Vec<i64> = (0..numbers.below(4))
            .map(|_| if numbers.below(8) == 0 { numbers.one_of(&lengths) } else { numbers.one_of(&lengths[1..7]) })
            .collect();
        let mut row_major = vec![1_i64; shape.len()];
        for at in (1..shape.len()).rev() {
            row_major[at - 1] = row_major[at].wrapping_mul(shape[at]);
        }
        let strides: Option<Vec<i64>> = match numbers.below(3) {
            0 => None,
            1 => Some(row_major),
            _ => Some(row_major.iter().map(|of| of.wrapping_add(numbers.one_of(&[0, 0, 1, -1, 1 << 33]))).collect()),
        };
        let offset = numbers.one_of(&[0, 0, 0, 4, 8, 3, u64::MAX]);
        let kind = numbers.one_of(&[2, 2, 2, 2, 13, 1, 3, -7]);
        let id = numbers.one_of(&[0, 0, 0, 0, 0, 1, -1]);
        let dtype = (
            numbers.one_of(&[2, 2, 2, 2, 0, 200]),
            numbers.one_of(&[32, 32, 32, 0, 255]),
            numbers.one_of(&[1, 1, 1, 0, 9]),
        );
        let major = numbers.one_of(&[1, 1, 1, 1, 1, 0, 2, u32::MAX]);
        let data = numbers.one_of(&[theirs.as_raw(), theirs.as_raw(), 0]);
        let mut tensor = Theirs::new(&shape, None).with(|of| {
            of.version = DLPackVersion { major, minor: numbers.below(9) as u32 };
            of.flags = numbers.next();
            of.dl_tensor.data = at(data);
            of.dl_tensor.byte_offset = offset;
            of.dl_tensor.device = DLDevice { device_type: DLDeviceType(kind), device_id: id };
            of.dl_tensor.dtype = DLDataType { code: DLDataTypeCode(dtype.0), bits: dtype.1, lanes: dtype.2 };
        });
        // The model counts the elements one by one where there are strides.
        let is_huge = is_sound(&shape, None).is_none_or(|elements| elements > MODELLED);
        let strides = strides.filter(|_| !is_huge);
        tensor.strides.clone_from(&strides);
        let sound = is_sound(&shape, strides.as_deref());
        let right_kind = major == 1 && dtype == (2, 32, 1) && (kind == 13 || kind == 2 && id == 0);
        let there = match sound {
            Some(0) => true,
            Some(elements) => {
                data != 0
                    && offset != u64::MAX
                    && offset.is_multiple_of(4)
                    && elements.saturating_mul(4).saturating_add((data + offset).into()) <= u128::from(u64::MAX)
            }
            None => false,
        };
        let expected = right_kind && there;
        let (tensor, deleted) = tensor.import(&stream);
        match tensor {
            Ok(tensor) => {
                assert!(expected, "seed {seed}: {shape:?} {strides:?}");
                assert_eq!(Some(tensor.len() as u128), sound, "seed {seed}");
                assert!(tensor.shape().iter().map(|length| *length as i64).eq(shape), "seed {seed}");
                assert!(tensor.is_empty() || tensor.as_slice().as_raw() == data + offset, "seed {seed}");
                taken += 1;
            }
            Err(error) => {
                assert!(!expected, "seed {seed}: {error}, {shape:?} {strides:?}");
                assert!(
                    matches!(
                        error,
                        Error::Dlpack(_) | Error::NullAddress | Error::Misaligned { .. } | Error::SizeOverflow { .. }
                    ),
                    "seed {seed}: {error}"
                );
                refused += 1;
            }
        }
        stream.context().drop_retired().unwrap();
        assert_eq!(deleted.load(Ordering::Relaxed), 1, "seed {seed}");
    }
    assert!(taken > 500 && refused > 500, "{taken} {refused}");
    assert_no_findings(fixture.sim());
    drop(theirs);
}
