//! Managed memory: what is said about its pages, and moves of it in stream order.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the simulator checks its arguments; that is what is tested")]
#![allow(
    clippy::unwrap_used,
    reason = "in a test's own functions, as in its `#[test]` functions, a surprise ends the test"
)]

mod rig;

use core::ffi::c_int;

use cuda_sys::*;
use cupool_sim::{Misuse, Simulator};
use rig::{INVALID, OK, Rig, rig};

const PAGE: usize = 4096;
const HOST: CUmemLocation = CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, id: 0 };
const DEVICE: CUmemLocation = CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 };

fn managed(rig: &Rig, bytes: usize) -> Result<u64, CUresult> {
    let mut address = 0;
    match unsafe { rig.cuda.cuMemAllocManaged.unwrap()(&mut address, bytes, 1) } {
        OK => Ok(address),
        code => Err(code),
    }
}

fn advise(rig: &Rig, address: u64, bytes: usize, advice: CUmem_advise, location: CUmemLocation) -> CUresult {
    unsafe { rig.cuda.cuMemAdvise_v2.unwrap()(address, bytes, advice, location) }
}

fn prefetch(rig: &Rig, address: u64, bytes: usize, location: CUmemLocation, stream: CUstream) -> CUresult {
    unsafe { rig.cuda.cuMemPrefetchAsync_v2.unwrap()(address, bytes, location, 0, stream) }
}

fn ask<const N: usize>(rig: &Rig, address: u64, bytes: usize, attribute: CUmem_range_attribute) -> [c_int; N] {
    let mut values = [77; N];
    let call = rig.cuda.cuMemRangeGetAttribute.unwrap();
    assert_eq!(unsafe { call((&raw mut values).cast(), 4 * N, attribute, address, bytes) }, OK);
    values
}

#[test]
fn a_range_has_what_all_its_pages_have() {
    use CUmem_advise as Advice;
    use CUmem_range_attribute as Range;
    let rig = rig();
    let address = managed(&rig, 4 * PAGE).unwrap();
    assert_eq!(ask(&rig, address, 4 * PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), [0]);
    assert_eq!(ask(&rig, address, 4 * PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), [-2]);
    assert_eq!(advise(&rig, address, 2 * PAGE, Advice::CU_MEM_ADVISE_SET_READ_MOSTLY, HOST), OK);
    assert_eq!(ask(&rig, address, PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), [1]);
    assert_eq!(ask(&rig, address, 4 * PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), [0]);
    assert_eq!(advise(&rig, address, 4 * PAGE, Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, HOST), OK);
    assert_eq!(ask(&rig, address, 4 * PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), [-1]);
    assert_eq!(ask(&rig, address, 4 * PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE), [2]);
    assert_eq!(advise(&rig, address, 4 * PAGE, Advice::CU_MEM_ADVISE_SET_ACCESSED_BY, DEVICE), OK);
    assert_eq!(advise(&rig, address, PAGE, Advice::CU_MEM_ADVISE_SET_ACCESSED_BY, HOST), OK);
    assert_eq!(ask(&rig, address, 4 * PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), [0, -2, -2]);
    assert_eq!(ask(&rig, address, PAGE, Range::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY), [-1, 0, -2]);
    assert_eq!(advise(&rig, address, 4 * PAGE + 1, Advice::CU_MEM_ADVISE_SET_READ_MOSTLY, HOST), INVALID);
    assert_eq!(rig.sim.take_findings().len(), 1);
}

#[test]
fn a_prefetch_is_told_at_once_and_done_in_stream_order() {
    let rig = rig();
    let stream = rig.stream();
    let address = managed(&rig, 2 * PAGE).unwrap();
    let last = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
    assert_eq!(prefetch(&rig, address, PAGE, DEVICE, stream), OK);
    assert_eq!(rig.sim.live().pending_operations, 1);
    assert_eq!(ask(&rig, address, PAGE, last), [0]);
    assert_eq!(ask(&rig, address, 2 * PAGE, last), [-2]);
    assert_eq!(rig.sync(stream), OK);
    assert!(rig.sim.findings().is_empty());
}

#[test]
fn a_prefetch_that_nothing_orders_with_a_write_is_found() {
    let rig = rig();
    let (one, two) = (rig.stream(), rig.stream());
    let address = managed(&rig, PAGE).unwrap();
    assert_eq!(unsafe { (rig.cuda.cuMemsetD8Async)(address, 1, PAGE, one) }, OK);
    assert_eq!(prefetch(&rig, address, PAGE, HOST, two), OK);
    assert_eq!((rig.sync(one), rig.sync(two)), (OK, OK));
    let found: Vec<Misuse> = rig.sim.take_findings().iter().map(|finding| finding.misuse).collect();
    assert_eq!(found, [Misuse::DataRace]);
}

#[test]
fn other_memory_has_no_place_to_be_told() {
    let rig = rig();
    let (stream, pool) = (rig.stream(), rig.pool());
    let address = rig.alloc(PAGE, pool, stream).unwrap();
    assert_eq!(prefetch(&rig, address, PAGE, HOST, stream), INVALID);
    assert_eq!(advise(&rig, address, PAGE, CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY, HOST), INVALID);
}

#[test]
fn devices_without_managed_memory_or_concurrent_access_refuse() {
    let none = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
    let rig = Rig::with(Simulator::builder().attribute(none, 0));
    assert_eq!(managed(&rig, PAGE), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    drop(rig);
    let concurrent = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
    let rig = Rig::with(Simulator::builder().attribute(concurrent, 0));
    let address = managed(&rig, PAGE).unwrap();
    assert_eq!(prefetch(&rig, address, PAGE, DEVICE, rig.stream()), CUresult::CUDA_ERROR_INVALID_DEVICE);
    assert_eq!(prefetch(&rig, address, PAGE, HOST, rig.stream()), OK);
}
