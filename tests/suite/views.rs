//! Views: ranges, splits and casts name the elements they should.

use core::ops::Bound;

use cupool::{Error, Result};

use crate::fixture::Fixture;

#[test]
fn ranges_of_every_kind_name_their_elements() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let numbers: Vec<u16> = (0..100).collect();
    let mut buffer = pool.alloc_from_host(&numbers, &stream).unwrap();
    assert_eq!(buffer.slice(..).unwrap().to_vec().unwrap(), numbers);
    assert_eq!(buffer.slice(10..20).unwrap().to_vec().unwrap(), numbers[10..20]);
    assert_eq!(buffer.slice(10..=20).unwrap().to_vec().unwrap(), numbers[10..=20]);
    assert_eq!(buffer.slice(..7).unwrap().to_vec().unwrap(), numbers[..7]);
    assert_eq!(buffer.slice(..=7).unwrap().to_vec().unwrap(), numbers[..=7]);
    assert_eq!(buffer.slice(93..).unwrap().to_vec().unwrap(), numbers[93..]);
    assert_eq!(buffer.slice((Bound::Excluded(5), Bound::Unbounded)).unwrap().to_vec().unwrap(), numbers[6..]);
    assert_eq!(buffer.slice(5..95).unwrap().slice(3..=9).unwrap().to_vec().unwrap(), numbers[8..15]);
    assert_eq!(buffer.slice_mut(50..).unwrap().slice(25..).unwrap().as_slice().to_vec().unwrap(), numbers[75..]);
}

#[test]
fn ranges_beyond_the_end_are_refused() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u16, _>(100, &stream).unwrap();
    let out = |end| Error::OutOfBounds { end, len: 100 };
    assert_eq!(buffer.slice(..101).unwrap_err(), out(101));
    assert_eq!(buffer.slice(..=100).unwrap_err(), out(101));
    assert_eq!(buffer.slice(101..).unwrap_err(), out(101));
    assert_eq!(buffer.slice_mut(0..usize::MAX).unwrap_err(), out(usize::MAX));
    assert!(buffer.slice(..=usize::MAX).is_err());
    assert!(buffer.slice((Bound::Excluded(usize::MAX), Bound::Unbounded)).is_err());
    let (start, end) = (7, 5);
    assert_eq!(buffer.slice(start..end).unwrap_err(), out(7));
    assert_eq!(buffer.as_slice().split_at(101).unwrap_err(), out(101));
    assert_eq!(buffer.slice(10..20).unwrap().slice(5..11).unwrap_err(), Error::OutOfBounds { end: 11, len: 10 });
    assert_eq!(buffer.slice(100..).unwrap().len(), 0);
    assert_eq!(out(101).to_string(), "range of elements up to 101 in a slice of 100");
}

#[test]
fn splits_share_no_element_and_lose_none() -> Result<()> {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    for mid in [0, 1, 50, 99, 100] {
        let mut buffer = pool.alloc::<u32, _>(100, &stream)?;
        let (mut head, mut tail) = buffer.as_mut_slice().split_at(mid)?;
        assert_eq!((head.len(), tail.len()), (mid, 100 - mid));
        head.fill(1)?;
        tail.fill(2)?;
        let mut expected = [2; 100];
        expected[..mid].fill(1);
        assert_eq!(buffer.to_vec()?, expected);
        let (head, tail) = buffer.as_slice().split_at(mid)?;
        assert_eq!([head.to_vec()?, tail.to_vec()?].concat(), expected);
    }
    Ok(())
}

#[test]
fn casts_name_the_same_bytes() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let words = [0x0403_0201_u32, 0x0807_0605];
    let mut buffer = pool.alloc_from_host(&words, &stream).unwrap();
    let bytes = bytemuck::cast_slice::<u32, u8>(&words);
    assert_eq!(buffer.as_slice().cast::<u8>().unwrap().to_vec().unwrap(), bytes);
    assert_eq!(buffer.as_slice().cast::<u64>().unwrap().to_vec().unwrap(), bytemuck::cast_slice::<u32, u64>(&words));
    buffer.as_mut_slice().cast::<u16>().unwrap().slice(1..3).unwrap().fill(0xffff).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0xffff_0201, 0x0807_ffff]);
    let buffer = buffer.cast::<[u8; 8]>().unwrap();
    assert_eq!((buffer.len(), buffer.byte_len()), (1, 8));
    assert_eq!(buffer.to_vec().unwrap(), [[1, 2, 0xff, 0xff, 0xff, 0xff, 7, 8]]);
}

#[test]
fn views_know_their_home_length_and_address() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(100, &stream).unwrap();
    let address = buffer.as_raw();
    assert_eq!((buffer.len(), buffer.byte_len(), buffer.is_empty()), (100, 400, false));
    let view = buffer.slice(10..20).unwrap();
    assert_eq!((view.as_raw(), view.len(), view.byte_len(), view.is_empty()), (address + 40, 10, 40, false));
    assert!(view.home().is_same(&stream));
    let (_, tail) = buffer.as_mut_slice().split_at(99).unwrap();
    assert_eq!((tail.as_raw(), tail.len()), (address + 396, 1));
    assert!(buffer.home().is_same(&stream));
}

#[test]
fn a_view_is_used_again_after_it_was_lent() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc::<u8, _>(10, &stream).unwrap();
    let mut view = buffer.as_mut_slice();
    view.reborrow().slice(..5).unwrap().fill(1).unwrap();
    view.reborrow().slice(5..).unwrap().fill(2).unwrap();
    assert_eq!(view.as_slice().to_vec().unwrap(), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    let shared = view.as_slice();
    let copy = shared;
    assert_eq!(shared.to_vec().unwrap(), copy.to_vec().unwrap());
}
