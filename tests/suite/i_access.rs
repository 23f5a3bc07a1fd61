//! Which devices reach a pool's memory. Two devices are simulated ones.

use cupool::{Access, Device, Error, MemPool, MemPoolLocation, MemPoolProperties, Stream};
use cupool_sim::{Builder, CUresult, Simulator, Symbol};

use crate::fixture::{Fixture, POOL_SIZE};

fn two() -> Fixture {
    Fixture::with(Simulator::builder().devices(2))
}

fn peer(fixture: &Fixture) -> Device {
    fixture.driver().device(1).unwrap()
}

fn stream_on(device: Device) -> Stream {
    Stream::new(&device.primary_context().unwrap()).unwrap()
}

#[test]
fn i1_each_pool_grants_access_by_itself() {
    let fixture = two();
    let (peer, stream) = (peer(&fixture), fixture.stream());
    let there = stream_on(peer);
    let (mut pool, other) = (fixture.pool(), fixture.pool());
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    assert_eq!(pool.access_of(&peer), Ok(Access::None));
    let refused = buffer.on(&there).unwrap().as_mut_slice().fill(1).unwrap_err();
    assert_eq!(refused.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE), "the peer does not reach it");
    pool.grant(&peer, Access::ReadWrite).unwrap();
    assert_eq!(pool.access_of(&peer), Ok(Access::ReadWrite));
    buffer.on(&there).unwrap().as_mut_slice().fill(2).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [2; 100]);
    assert_eq!(other.access_of(&peer), Ok(Access::None), "a pool of the same device");
}

#[test]
fn i1_a_grant_takes_nothing_away() {
    let fixture = two();
    let (peer, mut pool) = (peer(&fixture), fixture.pool());
    pool.grant(&peer, Access::None).unwrap();
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolSetAccess), 0);
    pool.grant(&peer, Access::Read).unwrap();
    assert_eq!(pool.access_of(&peer), Ok(Access::Read));
    pool.grant(&peer, Access::ReadWrite).unwrap();
    pool.grant(&peer, Access::Read).unwrap();
    pool.grant(&peer, Access::None).unwrap();
    assert_eq!(pool.access_of(&peer), Ok(Access::ReadWrite));
}

#[test]
fn i2_a_device_that_cannot_reach_the_memory_is_told_before_the_pool_is() {
    let fixture = Fixture::with(Simulator::builder().devices(2).peer_access(false));
    let (peer, mut pool) = (peer(&fixture), fixture.pool());
    let error = pool.grant(&peer, Access::Read).unwrap_err();
    assert_eq!(error, Error::PeerAccessUnsupported { device: 1, owner: 0 });
    assert_eq!(error.to_string(), "device 1 cannot access memory of device 0");
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolSetAccess), 0);
    assert_eq!(pool.access_of(&peer), Ok(Access::None));
}

#[test]
fn i4_the_owner_is_never_in_a_list_and_keeps_its_access() {
    let fixture = Fixture::new();
    let (device, mut pool) = (fixture.device(), fixture.pool());
    assert_eq!(pool.access_of(&device), Ok(Access::ReadWrite));
    for access in [Access::ReadWrite, Access::Read, Access::None] {
        pool.grant(&device, access).unwrap();
    }
    assert_eq!(pool.revoke(&device), Err(Error::OwnAccess { device: 0 }));
    // SAFETY: it is refused.
    assert_eq!(unsafe { pool.revoke_in_use(&device) }, Err(Error::OwnAccess { device: 0 }));
    assert_eq!(pool.access_of(&device), Ok(Access::ReadWrite));
}

#[test]
fn i4_one_call_grants_to_one_device() {
    let fixture = Fixture::with(Simulator::builder().devices(3));
    let mut pool = fixture.pool();
    let [one, other] = [1, 2].map(|at| fixture.driver().device(at).unwrap());
    for (device, times) in [(one, 1), (other, 2)] {
        pool.grant(&device, Access::ReadWrite).unwrap();
        assert_eq!(fixture.sim().count(Symbol::cuMemPoolSetAccess), times);
    }
    pool.revoke(&one).unwrap();
    assert_eq!((pool.access_of(&one), pool.access_of(&other)), (Ok(Access::None), Ok(Access::ReadWrite)));
}

#[test]
fn access_is_taken_back_only_from_a_pool_whose_memory_nobody_has() {
    let fixture = two();
    let (peer, stream, mut pool) = (peer(&fixture), fixture.stream(), fixture.pool());
    let there = stream_on(peer);
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    let in_use = Error::PoolInUse { held: pool.usage().unwrap().reserved };
    assert_eq!(pool.revoke(&peer), Err(in_use.clone()), "a buffer lives");
    buffer.on(&there).unwrap().as_mut_slice().fill(2).unwrap();
    drop(buffer);
    assert_eq!(pool.revoke(&peer), Err(in_use), "the peer may still be at work on it");
    assert_eq!(pool.access_of(&peer), Ok(Access::ReadWrite));
    stream.synchronize().unwrap();
    pool.revoke(&peer).unwrap();
    assert_eq!(pool.access_of(&peer), Ok(Access::None));
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    assert!(buffer.on(&there).unwrap().as_mut_slice().fill(3).is_err());
}

#[test]
fn access_is_taken_back_on_the_callers_word() {
    let fixture = two();
    let (peer, stream, mut pool) = (peer(&fixture), fixture.stream(), fixture.pool());
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    // SAFETY: the peer has no work.
    unsafe { pool.revoke_in_use(&peer) }.unwrap();
    assert_eq!(pool.access_of(&peer), Ok(Access::None));
    drop(buffer);
}

#[test]
fn access_that_is_newer_than_this_crate_is_not_guessed_at() {
    unsafe extern "C" fn newer(
        flags: *mut cupool::cuda_sys::CUmemAccess_flags,
        _: cupool::cuda_sys::CUmemoryPool,
        _: *mut cupool::cuda_sys::CUmemLocation_v1,
    ) -> CUresult {
        // SAFETY: the caller passes a place for flags.
        unsafe { flags.write(cupool::cuda_sys::CUmemAccess_flags(7)) };
        CUresult::CUDA_SUCCESS
    }
    let fixture = two();
    let mut functions = *fixture.driver().functions();
    functions.cuMemPoolGetAccess = Some(newer);
    // SAFETY: the entries are the simulated driver's, but for one that answers as a newer driver could.
    let driver = unsafe { cupool::Driver::from_functions(Box::leak(Box::new(functions))) };
    let (device, peer) = (driver.device(0).unwrap(), driver.device(1).unwrap());
    let properties = MemPoolProperties::new().max_size(POOL_SIZE);
    let mut pool = MemPool::with_properties(&device, &properties).unwrap();
    let unknown = Error::UnknownAccess { flags: 7 };
    assert_eq!(pool.access_of(&peer), Err(unknown.clone()));
    assert_eq!(pool.grant(&peer, Access::Read), Err(unknown));
    assert_eq!(pool.access_of(&fixture.device()), Err(Error::DriverMismatch));
    assert_eq!(pool.grant(&fixture.device(), Access::Read), Err(Error::DriverMismatch));
    assert_eq!(pool.revoke(&fixture.device()), Err(Error::DriverMismatch));
}

/// A driver that hands on access with a pool's handle.
fn stale() -> Builder {
    Simulator::builder().devices(2).stale_access(true)
}

#[test]
fn f19_what_a_pool_granted_does_not_pass_to_the_next_one_with_its_handle() {
    let fixture = Fixture::with(stale());
    let (peer, mut pool) = (peer(&fixture), fixture.pool());
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let handle = pool.as_raw();
    drop(pool);
    let next = fixture.pool();
    assert_eq!(next.as_raw(), handle, "the handle is given out again");
    assert_eq!(next.access_of(&peer), Ok(Access::None));
}

#[test]
fn f19_a_pool_that_granted_nothing_takes_nothing_back() {
    let fixture = two();
    let (peer, mut pool) = (peer(&fixture), fixture.pool());
    let pool_of_nothing = fixture.pool();
    let mode = Symbol::cuThreadExchangeStreamCaptureMode;
    let asked = [Symbol::cuMemPoolTrimTo, Symbol::cuMemPoolGetAttribute];
    let ends = [mode, asked[0], asked[1], Symbol::cuMemPoolDestroy, mode];
    fixture.expect_calls(&ends, || drop(pool_of_nothing));
    pool.grant(&peer, Access::Read).unwrap();
    pool.revoke(&peer).unwrap();
    fixture.expect_calls(&ends, || drop(pool));
}

#[test]
fn f19_a_pool_whose_memory_is_in_use_does_not_take_it_from_under_the_peer() {
    let fixture = Fixture::with(stale());
    let (peer, stream, mut pool) = (peer(&fixture), fixture.stream(), fixture.pool());
    let there = stream_on(peer);
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let mut buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    let handle = pool.as_raw();
    let before = fixture.sim().count(Symbol::cuMemPoolSetAccess);
    drop(pool);
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolSetAccess), before);
    buffer.on(&there).unwrap().as_mut_slice().fill(4).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [4; 100]);
    drop(buffer);
    stream.synchronize().unwrap();
    // The handle is free now, and its next pool begins with what was left taken back.
    let next = fixture.pool();
    assert_eq!(next.as_raw(), handle);
    assert_eq!(next.access_of(&peer), Ok(Access::None));
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolSetAccess), before + 1);
    drop(next);
    drop(fixture.pool());
    assert_eq!(fixture.sim().count(Symbol::cuMemPoolSetAccess), before + 1, "once");
}

#[test]
fn f19_a_pool_that_would_begin_with_anothers_access_is_not_handed_out() {
    let fixture = Fixture::with(stale());
    let (peer, stream, mut pool) = (peer(&fixture), fixture.stream(), fixture.pool());
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let buffer = pool.alloc::<u8, _>(100, &stream).unwrap();
    drop(pool);
    drop(buffer);
    stream.synchronize().unwrap();
    fixture.sim().fail(Symbol::cuMemPoolSetAccess, 0, CUresult::CUDA_ERROR_UNKNOWN);
    let properties = MemPoolProperties::new().max_size(POOL_SIZE);
    let error = MemPool::with_properties(&fixture.device(), &properties).unwrap_err();
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_UNKNOWN));
    assert_eq!(fixture.pool().access_of(&peer), Ok(Access::None), "the next attempt takes it back");
}

#[test]
fn f19_the_handles_next_pool_may_be_the_peers_own() {
    let fixture = Fixture::with(stale());
    let (peer, stream, mut pool) = (peer(&fixture), fixture.stream(), fixture.pool());
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let (handle, buffer) = (pool.as_raw(), pool.alloc::<u8, _>(100, &stream).unwrap());
    drop(pool);
    drop(buffer);
    stream.synchronize().unwrap();
    let next = MemPool::with_properties(&peer, &MemPoolProperties::new().max_size(POOL_SIZE)).unwrap();
    assert_eq!(next.as_raw(), handle);
    assert_eq!(next.access_of(&peer), Ok(Access::ReadWrite));
}

#[test]
fn f19_what_a_pool_of_host_memory_begins_with_does_not_pass_on_either() {
    let properties = MemPoolProperties::new().max_size(POOL_SIZE);
    for (in_use, reach) in [(false, false), (false, true), (true, false), (true, true)] {
        let fixture = Fixture::with(stale().peer_access(reach));
        let (device, peer, stream) = (fixture.device(), peer(&fixture), fixture.stream());
        let pool = MemPool::with_properties(&device, &properties.location(MemPoolLocation::NearestHostNuma)).unwrap();
        let (handle, buffer) = (pool.as_raw(), in_use.then(|| pool.alloc::<u8, _>(100, &stream).unwrap()));
        drop(pool);
        drop(buffer);
        stream.synchronize().unwrap();
        let next = MemPool::with_properties(&peer, &properties).unwrap();
        assert_eq!(next.as_raw(), handle);
        if reach {
            assert_eq!(next.access_of(&device), Ok(Access::None));
        }
    }
}

#[test]
fn a1_without_the_call_for_it_access_is_not_granted() {
    let fixture = two();
    let mut functions = *fixture.driver().functions();
    functions.cuMemPoolSetAccess = None;
    // SAFETY: the entries are the simulated driver's.
    let driver = unsafe { cupool::Driver::from_functions(Box::leak(Box::new(functions))) };
    let (device, peer) = (driver.device(0).unwrap(), driver.device(1).unwrap());
    let mut pool = MemPool::new(&device).unwrap();
    let unsupported = Error::Unsupported(Symbol::cuMemPoolSetAccess);
    assert_eq!(pool.grant(&peer, Access::Read), Err(unsupported.clone()));
    assert_eq!(pool.revoke(&peer), Err(unsupported));
}
