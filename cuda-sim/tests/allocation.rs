//! Stream-ordered allocation, pools, and their accounts.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::ptr;

use cuda_sys::*;
use cupool_sim::{Misuse, Simulator};
use rig::{INVALID, OK, Rig, props, rig};

const MIB: u64 = 1 << 20;

#[test]
fn consecutive_small_allocations_lie_512_bytes_apart() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let a = rig.alloc(10, pool, stream).unwrap();
    let b = rig.alloc(10, pool, stream).unwrap();
    assert_eq!(b - a, 512);
    assert_eq!(a % 512, 0);
}

#[test]
fn size_0_is_a_null_pointer_and_freeing_it_is_nothing() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    assert_eq!(rig.alloc(0, pool, stream), Ok(0));
    assert_eq!(rig.free(0, stream), OK);
    assert_eq!(rig.used(pool), 0);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn more_than_the_device_has_is_out_of_memory() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    for bytes in [usize::MAX, 1 << 46, (1 << 30) + 1] {
        assert_eq!(rig.alloc(bytes, pool, stream), Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    }
    assert!(rig.alloc(1 << 20, pool, stream).is_ok());
}

#[test]
fn used_counts_bytes_asked_for_and_drops_at_the_call() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(10, pool, stream).unwrap();
    assert_eq!((rig.used(pool), rig.reserved(pool)), (10, 32 * MIB));
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!((rig.used(pool), rig.reserved(pool)), (0, 32 * MIB));
    assert_eq!(rig.sync(stream), OK);
    assert_eq!((rig.used(pool), rig.reserved(pool)), (0, 0));
    let pointer = rig.alloc(33 << 20, pool, stream).unwrap();
    assert_eq!((rig.used(pool), rig.reserved(pool)), (33 * MIB, 64 * MIB));
    assert_eq!(rig.free(pointer, stream), OK);
    let high = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    assert_eq!(rig.attribute(pool, high), 33 * MIB);
    assert_eq!(rig.set_attribute(pool, high, 1), INVALID);
    assert_eq!(rig.set_attribute(pool, high, 0), OK);
    assert_eq!(rig.attribute(pool, high), 0);
    let current = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    assert_eq!(rig.set_attribute(pool, current, 0), INVALID);
}

#[test]
fn an_unknown_attribute_is_an_invalid_value_and_reuse_is_on() {
    let rig = rig();
    let pool = rig.pool();
    let mut value = 0_u64;
    let get = |attribute, value: &mut u64| unsafe {
        (rig.cuda.cuMemPoolGetAttribute)(pool, CUmemPool_attribute(attribute), ptr::from_mut(value).cast())
    };
    assert_eq!(get(99, &mut value), INVALID);
    for attribute in 1..=3 {
        assert_eq!((get(attribute, &mut value), value), (OK, 1));
    }
    assert_eq!((get(4, &mut value), value), (OK, 0));
}

#[test]
fn free_twice_answers_invalid_value() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(10, pool, stream).unwrap();
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.free(pointer, stream), INVALID);
    let findings = rig.sim.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].misuse, Misuse::FreedTwice);
    assert_eq!(findings[0].earlier.unwrap().entry, cupool_sim::Symbol::cuMemFreeAsync);
}

#[test]
fn free_of_an_interior_or_foreign_pointer_answers_invalid_value() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(10, pool, stream).unwrap();
    assert_eq!(rig.free(pointer + 1, stream), INVALID);
    assert_eq!(rig.free(0x1000, stream), INVALID);
    assert_eq!(rig.misuses(), [Misuse::ForeignFree, Misuse::ForeignFree]);
}

#[test]
fn free_on_another_stream_than_the_allocations_is_fine() {
    let rig = rig();
    let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
    let pointer = rig.alloc(10, pool, a).unwrap();
    assert_eq!(rig.sync(a), OK);
    assert_eq!(rig.destroy_stream(a), OK);
    assert_eq!(rig.free(pointer, b), OK);
    assert_eq!(unsafe { (rig.cuda.cuMemFree.unwrap())(pointer) }, INVALID);
    assert_eq!(rig.sync(b), OK);
    assert_eq!(rig.sim.live().allocations, 0);
}

#[test]
fn memfree_of_pool_memory_succeeds_and_used_stays() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(4096, pool, stream).unwrap();
    assert_eq!(unsafe { (rig.cuda.cuMemFree.unwrap())(pointer) }, OK);
    assert_eq!((rig.used(pool), rig.reserved(pool)), (4096, 0));
    let mut linear = 0;
    assert_eq!(unsafe { (rig.cuda.cuMemAlloc.unwrap())(&mut linear, 100) }, OK);
    assert_eq!(rig.free(linear, stream), OK);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn a_maximum_size_is_kept_and_a_free_in_the_same_stream_makes_room() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool_of(64 << 20));
    let a = rig.alloc(48 << 20, pool, stream).unwrap();
    assert_eq!(rig.alloc(48 << 20, pool, stream), Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    assert_eq!(rig.free(a, stream), OK);
    let b = rig.alloc(48 << 20, pool, stream).unwrap();
    assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(pool) }, OK);
    assert_eq!(rig.fill(b, 1, 48 << 20, stream), OK);
    assert_eq!(rig.free(b, stream), OK);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(rig.sim.live().reserved_bytes, 0);
    assert_eq!(rig.sim.live().address_space, 0);
    // It goes on as the driver says it does; some drivers do not.
    assert_eq!(rig.misuses(), [Misuse::PoolDestroyedInUse]);
}

#[test]
fn trim_gives_nothing_back_while_the_free_is_pending() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    rig.keep_memory(pool);
    let pointer = rig.alloc(256 << 20, pool, stream).unwrap();
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.trim(pool), OK);
    assert_eq!(rig.reserved(pool), 256 * MIB);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(rig.reserved(pool), 256 * MIB);
    assert_eq!(rig.trim(pool), OK);
    assert_eq!(rig.reserved(pool), 0);
}

#[test]
fn memory_freed_in_a_stream_is_used_again_in_it_at_once() {
    let rig = rig();
    let (a, b, pool) = (rig.stream(), rig.stream(), rig.pool());
    let first = rig.alloc(1000, pool, a).unwrap();
    assert_eq!(rig.free(first, a), OK);
    let elsewhere = rig.alloc(1000, pool, b).unwrap();
    assert_ne!(elsewhere, first);
    assert_eq!(rig.alloc(1000, pool, a), Ok(first));
}

#[test]
fn memory_is_poisoned_when_allocated_and_when_freed() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let pointer = rig.alloc(1000, pool, stream).unwrap();
    assert_eq!(rig.download(pointer, 1000, stream), [0xa5; 1000]);
    assert_eq!(rig.fill(pointer, 7, 1000, stream), OK);
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.alloc(1000, pool, stream), Ok(pointer));
    assert_eq!(rig.download(pointer, 1000, stream), [0xa5; 1000]);
}

#[test]
fn the_default_pool_cannot_be_destroyed_and_comes_back_when_the_current_one_is() {
    let rig = rig();
    let (mut default, mut current) = (ptr::null_mut(), ptr::null_mut());
    let pool = rig.pool();
    unsafe {
        assert_eq!((rig.cuda.cuDeviceGetDefaultMemPool.unwrap())(&mut default, 0), OK);
        assert_eq!((rig.cuda.cuMemPoolDestroy)(default), INVALID);
        assert_eq!((rig.cuda.cuDeviceSetMemPool.unwrap())(0, pool), OK);
        assert_eq!((rig.cuda.cuDeviceGetMemPool.unwrap())(&mut current, 0), OK);
        assert_eq!(current, pool);
        assert_eq!((rig.cuda.cuMemPoolDestroy)(pool), OK);
        assert_eq!((rig.cuda.cuDeviceGetMemPool.unwrap())(&mut current, 0), OK);
        assert_eq!(current, default);
    }
    assert_eq!(rig.misuses(), [Misuse::DefaultPoolDestroyed]);
}

#[test]
fn reserved_bytes_in_pool_properties_must_be_zero() {
    let rig = rig();
    let mut props = props();
    props.reserved[53] = 1;
    assert_eq!(rig.try_pool(&props), Err(INVALID));
    assert_eq!(rig.misuses(), [Misuse::ReservedBytes]);
}

#[test]
fn a_pool_without_a_maximum_costs_twice_the_memory_in_addresses() {
    let rig = rig();
    let pools: Vec<_> = (0..3).map(|_| rig.pool()).collect();
    assert_eq!(rig.sim.live().address_space, 6 << 30);
    rig.pool_of(2 << 20);
    assert_eq!(rig.sim.live().address_space, (6 << 30) + 2 * MIB);
    for pool in pools {
        assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(pool) }, OK);
    }
    assert_eq!(rig.sim.live().address_space, 2 * MIB);
}

#[test]
fn without_pool_support_pool_calls_answer_not_supported() {
    let rig = Rig::with(Simulator::builder().pools_supported(false));
    assert_eq!(rig.try_pool(&props()), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    let mut value = 1;
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    assert_eq!(unsafe { (rig.cuda.cuDeviceGetAttribute)(&mut value, attribute, 0) }, OK);
    assert_eq!(value, 0);
}

#[test]
fn host_and_managed_pools_allocate_memory_that_the_host_can_write() {
    let rig = rig();
    let stream = rig.stream();
    for location in [CUmemLocationType(1), CUmemLocationType(2), CUmemLocationType(3)] {
        for kind in [CUmemAllocationType(1), CUmemAllocationType(2)] {
            let mut props = props();
            (props.location.type_, props.allocType) = (location, kind);
            let pool = rig.try_pool(&props).unwrap();
            let pointer = rig.alloc(4096, pool, stream).unwrap();
            let on_device = location.0 == 1;
            if !(on_device && kind.0 == 1) {
                unsafe { ptr::with_exposed_provenance_mut::<u8>(pointer as usize).write(3) };
            }
            let pinned_host = !on_device && kind.0 == 1;
            assert_eq!(rig.fill(pointer, 9, 64, stream), if pinned_host { INVALID } else { OK });
            if pinned_host {
                let grant = CUmemAccessDesc_v1 {
                    location: CUmemLocation { type_: CUmemLocationType(1), id: 0 },
                    flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                };
                assert_eq!(unsafe { (rig.cuda.cuMemPoolSetAccess.unwrap())(pool, &grant, 1) }, OK);
                assert_eq!(rig.fill(pointer, 9, 64, stream), OK);
            }
            // The call that says which side is which does not take pinned memory of the host's for the device's.
            let mut target = [0_u8; 64];
            let address = target.as_mut_ptr();
            let copied = unsafe { (rig.cuda.cuMemcpyDtoHAsync)(address.cast(), pointer, 64, stream) };
            assert_eq!(copied, if pinned_host { INVALID } else { OK });
            if pinned_host {
                let to = address.expose_provenance() as u64;
                assert_eq!(unsafe { (rig.cuda.cuMemcpyAsync.unwrap())(to, pointer, 64, stream) }, OK);
            }
            assert_eq!(rig.sync(stream), OK);
            assert_eq!(target, [9; 64]);
            assert_eq!(rig.free(pointer, stream), OK);
            assert_eq!(rig.sync(stream), OK);
            assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(pool) }, OK);
        }
    }
    assert!(rig.sim.findings().is_empty());
    assert_eq!(rig.sim.live().pools, 0);
}

#[test]
fn access_is_granted_all_or_nothing_and_the_owner_keeps_its_own() {
    let rig = Rig::with(Simulator::builder().devices(3));
    let pool = rig.pool();
    let at = |id| CUmemLocation { type_: CUmemLocationType(1), id };
    let set =
        |map: &[CUmemAccessDesc_v1]| unsafe { (rig.cuda.cuMemPoolSetAccess.unwrap())(pool, map.as_ptr(), map.len()) };
    let flags_of = |id| {
        let (mut flags, mut location) = (CUmemAccess_flags(9), at(id));
        let code = unsafe { (rig.cuda.cuMemPoolGetAccess.unwrap())(&mut flags, pool, &mut location) };
        assert_eq!(code, OK);
        flags.0
    };
    assert_eq!([flags_of(0), flags_of(1)], [3, 0]);
    let peer = CUmemAccessDesc_v1 { location: at(1), flags: CUmemAccess_flags(3) };
    let owner = CUmemAccessDesc_v1 { location: at(0), flags: CUmemAccess_flags(0) };
    assert_eq!(set(&[peer, owner]), CUresult::CUDA_ERROR_INVALID_DEVICE);
    assert_eq!(flags_of(1), 0);
    assert_eq!(set(&[peer]), OK);
    assert_eq!([flags_of(1), flags_of(2)], [3, 0]);
}

#[test]
fn a_handle_that_is_given_out_again_may_bring_the_access_that_was_granted_before() {
    for stale in [false, true] {
        let rig = Rig::with(Simulator::builder().devices(2).stale_access(stale));
        let peer = CUmemAccessDesc_v1 {
            location: CUmemLocation { type_: CUmemLocationType(1), id: 1 },
            flags: CUmemAccess_flags(3),
        };
        let first = rig.pool();
        assert_eq!(unsafe { (rig.cuda.cuMemPoolSetAccess.unwrap())(first, &raw const peer, 1) }, OK);
        assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(first) }, OK);
        let second = rig.pool();
        assert_eq!(first, second);
        let (mut flags, mut location) = (CUmemAccess_flags(9), peer.location);
        let get = rig.cuda.cuMemPoolGetAccess.unwrap();
        assert_eq!(unsafe { get(&mut flags, second, &mut location) }, OK);
        assert_eq!(flags.0, if stale { 3 } else { 0 });
    }
}

#[cfg(unix)]
#[test]
fn a_shareable_pool_and_a_pointer_can_be_exported_and_imported() {
    let rig = rig();
    let stream = rig.stream();
    let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let mut props = props();
    props.handleTypes = kind;
    let pool = rig.try_pool(&props).unwrap();
    let pointer = rig.alloc(4096, pool, stream).unwrap();
    assert_eq!(rig.fill(pointer, 5, 4096, stream), OK);
    assert_eq!(rig.sync(stream), OK);
    let (mut fd, mut imported, mut alias) = (-1_i32, ptr::null_mut(), 0);
    let mut data = CUmemPoolPtrExportData_v1 { reserved: [0; 64] };
    unsafe {
        let export = rig.cuda.cuMemPoolExportToShareableHandle.unwrap();
        assert_eq!(export((&raw mut fd).cast(), pool, kind, 0), OK);
        let import = rig.cuda.cuMemPoolImportFromShareableHandle.unwrap();
        assert_eq!(import(&mut imported, ptr::without_provenance_mut(fd as usize), kind, 0), OK);
        assert_eq!(libc::close(fd), 0);
        assert_eq!((rig.cuda.cuMemPoolExportPointer.unwrap())(&mut data, pointer), OK);
        assert_eq!((rig.cuda.cuMemPoolImportPointer.unwrap())(&mut alias, imported, &mut data), OK);
    }
    assert_ne!(alias, pointer);
    assert_eq!(rig.download(alias, 4096, stream), [5; 4096]);
    assert_eq!(rig.alloc(10, imported, stream), Err(INVALID));
    assert_eq!(rig.free(alias, stream), OK);
    assert_eq!(rig.free(pointer, stream), OK);
    assert_eq!(rig.sync(stream), OK);
    assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(imported) }, OK);
    assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(pool) }, OK);
    assert_eq!(rig.sim.live().pools, 0);
    assert!(rig.sim.findings().is_empty());
}
