//! Which pools there are, by version and device, and what they say of themselves.
#![allow(clippy::unwrap_used, reason = "this is test code")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]

mod rig;

use core::ptr;

use cuda_sys::*;
use cupool_sim::{Misuse, Simulator, Symbol};
use rig::{INVALID, OK, Rig, props};

const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_NOT_SUPPORTED;
const DEVICE: u32 = 1;
const HOST: u32 = 2;
const NUMA: u32 = 3;
const PINNED: u32 = 1;
const MANAGED: u32 = 2;

fn at(version: u32) -> Rig {
    Rig::with(Simulator::builder().driver_version(version))
}

fn of(place: u32, kind: u32) -> CUmemPoolProps_v1 {
    let mut props = props();
    (props.location.type_, props.allocType) = (CUmemLocationType(place), CUmemAllocationType(kind));
    props
}

/// Whether the driver makes such a pool, which ends again.
fn makes(rig: &Rig, props: &CUmemPoolProps_v1) -> CUresult {
    match rig.try_pool(props) {
        Ok(pool) => unsafe { (rig.cuda.cuMemPoolDestroy)(pool) },
        Err(code) => code,
    }
}

#[test]
fn pools_came_one_kind_after_the_other() {
    for (version, numa, rest) in [
        (11030, INVALID, INVALID),
        (12010, INVALID, INVALID),
        (12020, OK, INVALID),
        (12090, OK, INVALID),
        (13000, OK, OK),
    ] {
        let rig = at(version);
        assert_eq!(makes(&rig, &of(DEVICE, PINNED)), OK, "{version}");
        assert_eq!(makes(&rig, &of(NUMA, PINNED)), numa, "{version}");
        for (place, kind) in [(HOST, PINNED), (DEVICE, MANAGED), (HOST, MANAGED), (NUMA, MANAGED), (0, MANAGED)] {
            assert_eq!(makes(&rig, &of(place, kind)), rest, "{version}: {place} {kind}");
        }
        assert_eq!(makes(&rig, &of(0, PINNED)), INVALID);
        assert_eq!(makes(&rig, &of(4, PINNED)), INVALID);
    }
}

#[test]
fn what_later_drivers_read_is_reserved_in_earlier_ones() {
    for (version, max_size, usage) in [(12010, INVALID, INVALID), (12020, OK, INVALID), (12060, OK, UNSUPPORTED)] {
        let rig = at(version);
        let mut props = props();
        props.maxSize = 64 << 20;
        assert_eq!(makes(&rig, &props), max_size, "{version}");
        (props.maxSize, props.usage) = (0, 2);
        // From 12.6 to 12.8 a device could not be asked whether it decompresses.
        assert_eq!(makes(&rig, &props), if version == 12060 { OK } else { usage }, "{version}");
        let refused = usize::from(max_size == INVALID) + usize::from(usage == INVALID);
        assert_eq!(rig.misuses(), vec![Misuse::ReservedBytes; refused], "{version}");
    }
    let (rig, mut props) = (at(13000), props());
    props.usage = 2;
    assert_eq!(makes(&rig, &props), UNSUPPORTED, "an H200 does not decompress");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let rig = at(13000);
    let with = |place, kind, change: fn(&mut CUmemPoolProps_v1)| {
        let mut props = of(place, kind);
        change(&mut props);
        makes(&rig, &props)
    };
    let file = |props: &mut CUmemPoolProps_v1| props.handleTypes = CUmemAllocationHandleType(1);
    assert_eq!(with(DEVICE, PINNED, file), OK);
    assert_eq!(with(NUMA, PINNED, file), OK);
    assert_eq!(with(HOST, PINNED, file), INVALID);
    assert_eq!(with(DEVICE, MANAGED, file), INVALID);
    assert_eq!(with(DEVICE, MANAGED, |props| props.maxSize = 1 << 20), INVALID);
    assert_eq!(with(NUMA, PINNED, |props| props.location.id = 9), INVALID);
    assert_eq!(with(DEVICE, PINNED, |props| props.handleTypes = CUmemAllocationHandleType(2)), INVALID);
}

#[test]
fn a_device_that_lacks_a_kind_has_no_such_pool() {
    use CUdevice_attribute as A;
    let refuses = |attribute, props: &CUmemPoolProps_v1| {
        let rig = Rig::with(Simulator::builder().attribute(attribute, 0));
        assert_eq!(makes(&rig, props), UNSUPPORTED);
        let rig = Rig::with(Simulator::builder().unknown_attribute(attribute));
        let mut value = 0;
        assert_eq!(unsafe { (rig.cuda.cuDeviceGetAttribute)(&mut value, attribute, 0) }, INVALID);
        assert_eq!(makes(&rig, props), OK);
    };
    refuses(A::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, &of(HOST, PINNED));
    refuses(A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, &of(NUMA, PINNED));
    refuses(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &of(DEVICE, MANAGED));
    let mut shared = of(DEVICE, PINNED);
    shared.handleTypes = CUmemAllocationHandleType(8);
    refuses(A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, &shared);
}

#[test]
fn pools_say_what_they_are_since_13_2() {
    for version in [13010, 13020] {
        let rig = at(version);
        let mut props = of(NUMA, PINNED);
        (props.location.id, props.maxSize) = (1, (2 << 20) + 1);
        let pool = rig.try_pool(&props).unwrap();
        for (attribute, expected) in [(9, 1), (10, 0), (11, 1), (12, 3), (14, 0)] {
            let mut value = 77_u32;
            let into = (&raw mut value).cast();
            let code = unsafe { (rig.cuda.cuMemPoolGetAttribute)(pool, CUmemPool_attribute(attribute), into) };
            assert_eq!((code, value), if version < 13020 { (INVALID, 77) } else { (OK, expected) }, "{attribute}");
        }
        let (sized, mut size) = (rig.pool_of((2 << 20) + 1), 0_u64);
        let max_size = CUmemPool_attribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE;
        let code = unsafe { (rig.cuda.cuMemPoolGetAttribute)(sized, max_size, (&raw mut size).cast()) };
        // Rounded up.
        assert_eq!((code, size), if version < 13020 { (INVALID, 0) } else { (OK, 4 << 20) });
        let allocation_type = CUmemPool_attribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE;
        assert_eq!(rig.set_attribute(pool, allocation_type, 2), INVALID, "that is settled at its creation");
    }
}

#[test]
fn a_pool_of_host_memory_keeps_what_its_threshold_allows() {
    let rig = at(13000);
    let (stream, other) = (rig.stream(), rig.stream());
    let mut props = of(HOST, PINNED);
    props.maxSize = 64 << 20;
    let pool = rig.try_pool(&props).unwrap();
    rig.keep_memory(pool);
    let pointer = rig.alloc(48 << 20, pool, stream).unwrap();
    assert_eq!(rig.alloc(48 << 20, pool, other), Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    assert_eq!(rig.free(pointer, stream), OK);
    // Free in the same stream's order at once, and for the system when the stream is there.
    assert_eq!(rig.trim(pool), OK);
    assert_eq!(rig.reserved(pool), 48 << 20);
    let again = rig.alloc(40 << 20, pool, stream).unwrap();
    assert_eq!((rig.used(pool), rig.reserved(pool)), (40 << 20, 48 << 20));
    assert_eq!((rig.free(again, stream), rig.sync(stream)), (OK, OK));
    assert_eq!((rig.used(pool), rig.reserved(pool)), (0, 48 << 20));
    assert_eq!(rig.trim(pool), OK);
    assert_eq!(rig.reserved(pool), 0);
}

#[test]
fn places_have_default_and_current_pools_since_13_0() {
    assert!(at(12090).cuda.cuMemGetDefaultMemPool.is_none());
    let rig = at(13000);
    let get = |call: PFN_cuMemGetDefaultMemPool_v13000, place, id, kind| {
        let (mut pool, mut location) = (ptr::null_mut(), CUmemLocation { type_: CUmemLocationType(place), id });
        (unsafe { call.unwrap()(&mut pool, &mut location, CUmemAllocationType(kind)) }, pool)
    };
    let (default, current) = (rig.cuda.cuMemGetDefaultMemPool, rig.cuda.cuMemGetMemPool);
    for (place, kind) in [(DEVICE, PINNED), (HOST, PINNED), (NUMA, PINNED), (DEVICE, MANAGED), (0, MANAGED)] {
        let (code, pool) = get(default, place, 0, kind);
        assert_eq!((code, get(current, place, 0, kind)), (OK, (OK, pool)), "{place} {kind}");
    }
    // The host has no number.
    assert_eq!(get(default, HOST, 5, PINNED), get(default, HOST, 0, PINNED));
    assert_eq!(get(default, 0, 0, PINNED).0, INVALID);
    assert_eq!(get(default, NUMA, 9, PINNED).0, INVALID);
    let own = rig.try_pool(&of(HOST, PINNED)).unwrap();
    let mut host = CUmemLocation { type_: CUmemLocationType(HOST), id: 3 };
    let set = rig.cuda.cuMemSetMemPool.unwrap();
    assert_eq!(unsafe { set(&mut host, CUmemAllocationType(MANAGED), own) }, INVALID);
    assert_eq!(unsafe { set(&mut host, CUmemAllocationType(PINNED), own) }, OK);
    assert_eq!(get(current, HOST, 0, PINNED), (OK, own));
    assert_eq!(unsafe { (rig.cuda.cuMemPoolDestroy)(own) }, OK);
    assert_eq!(get(current, HOST, 0, PINNED), get(default, HOST, 0, PINNED));
}

#[test]
fn an_attribute_whose_setting_is_ignored_stays_as_it_was() {
    let rig = at(13000);
    let (pool, threshold) = (rig.pool(), CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
    rig.sim.ignore(Symbol::cuMemPoolSetAttribute, 0);
    assert_eq!(rig.set_attribute(pool, threshold, 5), OK);
    assert_eq!(rig.attribute(pool, threshold), 0);
    assert_eq!(rig.set_attribute(pool, threshold, 5), OK);
    assert_eq!(rig.attribute(pool, threshold), 5);
}
