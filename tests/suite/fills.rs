//! Fills of every width.

use bytemuck::{Pod, Zeroable};
use cupool::Error;

use crate::fixture::Fixture;

/// Four bytes that need no alignment.
#[derive(Clone, Copy, Debug, PartialEq, Zeroable, Pod)]
#[repr(C)]
struct Pixel([u8; 4]);

fn fills_a_part<T: Pod + PartialEq + core::fmt::Debug>(background: T, value: T) {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for (start, len) in [(0, 1), (0, 100), (1, 1), (1, 98), (3, 7), (99, 1)] {
        let mut buffer = pool.alloc::<T, _>(100, &stream).unwrap();
        buffer.fill(background).unwrap();
        buffer.slice_mut(start..start + len).unwrap().fill(value).unwrap();
        let mut expected = [background; 100];
        expected[start..start + len].fill(value);
        assert_eq!(buffer.to_vec().unwrap(), expected);
    }
}

#[test]
fn one_byte_elements_are_filled() {
    fills_a_part(0x11_u8, 0xfe);
    fills_a_part(-1_i8, 5);
    fills_a_part([3_u8; 1], [4]);
}

#[test]
fn two_byte_elements_are_filled() {
    fills_a_part(0x1122_u16, 0xfedc);
    fills_a_part(-1_i16, 0x0102);
}

#[test]
fn four_byte_elements_are_filled() {
    fills_a_part(0x1122_3344_u32, 0xfedc_ba98);
    fills_a_part(1.5_f32, -f32::MIN_POSITIVE);
    fills_a_part(-1_i32, 0x0102_0304);
}

#[test]
fn elements_that_are_less_aligned_than_large_are_filled_where_the_driver_can() {
    fills_a_part(Pixel([1, 2, 3, 4]), Pixel([9, 8, 7, 6]));
    fills_a_part([1_u8, 2], [3, 4]);

    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut bytes = pool.alloc_zeroed::<u8, _>(102, &stream).unwrap();
    let address = bytes.as_raw();
    fixture.expect_calls(&[], || {
        let mut odd = bytes.slice_mut(1..101).unwrap().cast::<Pixel>().unwrap();
        assert_eq!(odd.fill(Pixel([1; 4])), Err(Error::Misaligned { address: address + 1, align: 4 }));
        let mut odd = bytes.slice_mut(1..101).unwrap().cast::<[u8; 2]>().unwrap();
        assert_eq!(odd.fill([1; 2]), Err(Error::Misaligned { address: address + 1, align: 2 }));
    });
    bytes.slice_mut(1..101).unwrap().cast::<Pixel>().unwrap().fill_zero().unwrap();
}

#[test]
fn zero_fills_take_elements_of_any_size() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut wide = pool.alloc_from_host(&[u64::MAX; 10], &stream).unwrap();
    wide.slice_mut(1..9).unwrap().fill_zero().unwrap();
    let expected = [u64::MAX, 0, 0, 0, 0, 0, 0, 0, 0, u64::MAX];
    assert_eq!(wide.to_vec().unwrap(), expected);

    let mut odd = pool.alloc_from_host(&[[0xff_u8; 3]; 5], &stream).unwrap();
    odd.slice_mut(1..3).unwrap().fill_zero().unwrap();
    assert_eq!(odd.to_vec().unwrap(), [[0xff; 3], [0; 3], [0; 3], [0xff; 3], [0xff; 3]]);
    assert_eq!(pool.alloc_zeroed::<f64, _>(1000, &stream).unwrap().to_vec().unwrap(), [0.0; 1000]);
}
