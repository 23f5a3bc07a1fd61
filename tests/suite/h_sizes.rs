//! Lengths and sizes at the edges: none, elements without size, too many, unaligned.

use bytemuck::{Pod, Zeroable};
use cupool::{Buffer, Error, Stream};
use cupool_sim::Symbol;

use crate::fixture::Fixture;

#[test]
fn h1_no_elements_take_no_calls() {
    let fixture = Fixture::simulated();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    fixture.expect_calls(&[], || {
        let mut none = pool.alloc::<u32, _>(0, &stream).unwrap();
        let mut zeroed = pool.alloc_zeroed::<u32, _>(0, &stream).unwrap();
        let from_host = pool.alloc_from_host::<u32, _>(&[], &other).unwrap();
        use_nothing(&mut none, &from_host);
        use_nothing(&mut zeroed, &from_host);
        none.free().unwrap();
    });
    assert_eq!(pool.usage().unwrap(), cupool::MemPoolUsage::default());
}

/// Everything that can be done with no elements.
fn use_nothing<T: Pod + PartialEq + core::fmt::Debug>(none: &mut Buffer<T, &Stream>, other: &Buffer<T, &Stream>) {
    assert_eq!((none.len(), none.byte_len(), none.is_empty(), none.as_raw()), (0, 0, true, 0));
    none.copy_from_host(&[]).unwrap();
    none.copy_to_host(&mut []).unwrap();
    assert_eq!(none.to_vec().unwrap(), []);
    none.copy_from(other.as_slice()).unwrap();
    none.fill_zero().unwrap();
    none.slice(..).unwrap().slice(0..0).unwrap().split_at(0).unwrap().0.cast::<u64>().unwrap();
    none.slice_mut(..).unwrap().cast::<u8>().unwrap().fill(1).unwrap();
}

#[test]
fn h1_an_empty_part_of_a_buffer_takes_no_calls() {
    let fixture = Fixture::simulated();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    let mut some = pool.alloc::<u16, _>(10, &stream).unwrap();
    let source = pool.alloc::<u16, _>(10, &other).unwrap();
    fixture.expect_calls(&[], || {
        for at in [0, 1, 10] {
            let mut part = some.slice_mut(at..at).unwrap();
            part.copy_from_host(&[]).unwrap();
            part.copy_from(source.slice(at..at).unwrap()).unwrap();
            part.fill(3).unwrap();
            part.fill_zero().unwrap();
            assert_eq!(part.as_slice().to_vec().unwrap(), []);
        }
    });
}

#[test]
fn h1_h8_elements_without_size_take_no_calls() {
    #[derive(Clone, Copy, Debug, PartialEq, Zeroable, Pod)]
    #[repr(C)]
    struct Nothing;

    let fixture = Fixture::simulated();
    let (pool, stream, other) = (fixture.pool(), fixture.stream(), fixture.stream());
    fixture.expect_calls(&[], || {
        for len in [0, 1, 1000, usize::MAX] {
            let mut none = pool.alloc::<Nothing, _>(len, &stream).unwrap();
            let source = pool.alloc_zeroed::<Nothing, _>(len, &other).unwrap();
            assert_eq!((none.len(), none.byte_len(), none.as_raw()), (len, 0, 0));
            none.fill(Nothing).unwrap();
            none.fill_zero().unwrap();
            none.copy_from(source.as_slice()).unwrap();
            assert_eq!(none.slice(..len / 2).unwrap().len(), len / 2);
            assert_eq!(none.as_slice().split_at(len / 2).unwrap().1.len(), len - len / 2);
        }
        let mut few = pool.alloc::<Nothing, _>(3, &stream).unwrap();
        few.copy_from_host(&[Nothing; 3]).unwrap();
        assert_eq!(few.to_vec().unwrap(), [Nothing; 3]);
        assert_eq!(few.copy_from_host(&[Nothing]), Err(Error::LengthMismatch { destination: 3, source_len: 1 }));
    });
}

#[test]
fn h8_elements_without_size_cast_without_dividing_by_it() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let empties = pool.alloc::<[u32; 0], _>(7, &stream).unwrap();
    assert_eq!(empties.as_slice().cast::<[u8; 0]>().unwrap().len(), 7);
    assert_eq!(empties.as_slice().cast::<u64>().unwrap().len(), 0);
    assert_eq!(empties.as_slice().cast::<()>().unwrap().len(), 7);
    let words = pool.alloc::<u32, _>(3, &stream).unwrap();
    assert_eq!(words.as_slice().cast::<()>().unwrap_err(), Error::UnevenCast { bytes: 12, size: 0 });
    assert_eq!(words.slice(..0).unwrap().cast::<()>().unwrap().len(), 0);
}

#[test]
fn h2_length_times_size_overflows_before_any_call() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    fixture.expect_calls(&[], || {
        for len in [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 4 + 1] {
            let overflow = Error::SizeOverflow { len, size: 4 };
            assert_eq!(pool.alloc::<u32, _>(len, &stream).unwrap_err(), overflow);
            assert_eq!(pool.alloc_zeroed::<u32, _>(len, &stream).unwrap_err(), overflow);
            assert_eq!(overflow.to_string(), format!("{len} elements of 4 bytes overflow the address space"));
        }
        assert!(pool.alloc::<[u8; 4096], _>(usize::MAX / 4096 + 1, &stream).is_err());
    });
}

#[test]
fn h2_the_largest_sizes_that_do_not_overflow_are_the_drivers_to_refuse() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for len in [usize::MAX / 4, isize::MAX as usize / 4, 1 << 58] {
        let error = pool.alloc::<u32, _>(len, &stream).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory(_)), "{len}: {error}");
    }
}

#[test]
fn h4_the_driver_is_asked_for_exactly_length_times_size() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let used = || pool.usage().unwrap().used;
    for len in [1, 3, 10, 1000, 1 << 20] {
        let bytes = pool.alloc::<u8, _>(len, &stream).unwrap();
        assert_eq!(used(), len as u64);
        drop(bytes);
        let odd = pool.alloc::<[u8; 3], _>(len, &stream).unwrap();
        assert_eq!((used(), odd.byte_len()), (3 * len as u64, 3 * len));
        drop(odd);
        let wide = pool.alloc_zeroed::<f64, _>(len, &stream).unwrap();
        assert_eq!(used(), 8 * len as u64);
        drop(wide);
        assert_eq!(used(), 0);
    }
}

#[test]
fn h6_buffers_are_aligned_to_256_bytes() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffers: Vec<_> = (1..200).map(|len| pool.alloc::<u8, _>(len, &stream).unwrap()).collect();
    assert!(buffers.iter().all(|buffer| buffer.as_raw() % 256 == 0));
}

#[test]
fn h6_elements_aligned_more_than_the_driver_aligns_are_aligned_or_refused() {
    #[derive(Clone, Copy, Zeroable)]
    #[repr(C, align(4096))]
    struct Page([u8; 4096]);
    // SAFETY: plain bytes without padding, any of which are valid.
    unsafe impl Pod for Page {}

    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for _ in 0..8 {
        let _in_between = pool.alloc::<u8, _>(1, &stream).unwrap();
        match pool.alloc::<Page, _>(2, &stream) {
            Ok(pages) => assert_eq!(pages.as_raw() % 4096, 0, "misaligned elements in safe code"),
            Err(error) => assert!(matches!(error, Error::Misaligned { align: 4096, .. }), "{error}"),
        }
    }
}

#[test]
fn h7_a_view_at_an_odd_offset_is_not_cast_to_a_wider_type() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(65, &stream).unwrap();
    let address = buffer.as_raw();
    fixture.expect_calls(&[], || {
        let misaligned = |offset, align| Error::Misaligned { address: address + offset, align };
        assert_eq!(buffer.slice(1..9).unwrap().cast::<u64>().unwrap_err(), misaligned(1, 8));
        assert_eq!(buffer.slice(4..12).unwrap().cast::<u64>().unwrap_err(), misaligned(4, 8));
        assert_eq!(buffer.slice_mut(2..10).unwrap().cast::<u32>().unwrap_err(), misaligned(2, 4));
        assert_eq!(buffer.slice(8..24).unwrap().cast::<u64>().unwrap().len(), 2);
        assert_eq!(buffer.slice(3..3).unwrap().cast::<u64>().unwrap().len(), 0);
        assert_eq!(buffer.slice(1..9).unwrap().cast::<[u8; 8]>().unwrap().len(), 1);
    });
}

#[test]
fn h7_a_length_that_is_no_whole_number_of_elements_is_not_cast() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let buffer = pool.alloc::<u8, _>(65, &stream).unwrap();
    assert_eq!(buffer.slice(..63).unwrap().cast::<u32>().unwrap_err(), Error::UnevenCast { bytes: 63, size: 4 });
    // The buffer comes back as it was, to be used and freed once.
    let (error, mut buffer) = buffer.cast::<u32>().unwrap_err();
    assert_eq!(error, Error::UnevenCast { bytes: 65, size: 4 });
    assert_eq!(error.to_string(), "65 bytes are not a whole number of 4-byte elements");
    buffer.fill(1).unwrap();
    fixture.expect_calls(&[Symbol::cuMemFreeAsync], || drop(buffer));
}
