//! Pools of other kinds than a device's own, and how they are told apart.

use cupool::{MemHandleTypes, MemKind, MemPoolLocation, MemPoolProperties};

use super::*;

pub(super) fn pool_kinds(table: &mut Table<'_>, device: Device) {
    let stream = table.fixture.stream();
    none! { table:
        "MemPoolProperties::new" => MemPoolProperties::new();
        "MemPoolProperties::location" => MemPoolProperties::new().location(MemPoolLocation::Host);
        "MemPoolProperties::kind" => MemPoolProperties::new().kind(MemKind::Managed);
        "MemPoolProperties::max_size" => MemPoolProperties::new().max_size(POOL_SIZE);
        "MemPoolProperties::release_threshold" => MemPoolProperties::new().release_threshold(0);
        "MemPoolProperties::handle_types" => MemPoolProperties::new().handle_types(MemHandleTypes::POSIX_FD);
        "MemPoolProperties::hw_decompress" => MemPoolProperties::new().hw_decompress(true);
        "MemHandleTypes::from_bits" => MemHandleTypes::from_bits(1);
        "MemHandleTypes::bits" => MemHandleTypes::FABRIC.bits();
        "MemHandleTypes::is_empty" => MemHandleTypes::FABRIC.is_empty();
        "MemHandleTypes::contains" => MemHandleTypes::FABRIC.contains(MemHandleTypes::NONE);
        "MemHandleTypes::union" => MemHandleTypes::FABRIC.union(MemHandleTypes::POSIX_FD);
    }
    let made = [EXCHANGE, cuMemPoolCreate, EXCHANGE];
    let granted = [EXCHANGE, cuMemPoolSetAccess, EXCHANGE];
    let mut create = |of: &str, asked: &[Symbol], then: &[Symbol], properties: MemPoolProperties| {
        let calls = [&[cuDeviceGetAttribute, cuDriverGetVersion][..], asked, &made, then].concat();
        let properties = properties.release_threshold(0);
        let make = || MemPool::with_properties(&device, &properties).unwrap();
        table.row(&format!("MemPool::with_properties ({of})"), &calls, make)
    };
    let new = MemPoolProperties::new;
    let attribute = [cuDeviceGetAttribute];
    drop(create("host", &attribute, &granted, new().location(MemPoolLocation::Host)));
    let node = new().location(MemPoolLocation::HostNuma(0));
    drop(create("a NUMA node", &attribute, &granted, node));
    let nearest = new().location(MemPoolLocation::NearestHostNuma);
    drop(create("the nearest NUMA node", &[attribute, attribute].concat(), &granted, nearest));
    // There are two.
    let every_device =
        [&[cuInit, cuDeviceGetCount][..], &[cuInit, cuDeviceGet, cuDeviceGetAttribute].repeat(2)].concat();
    drop(create("managed", &every_device, &[], new().kind(MemKind::Managed)));
    let pool = create("to be shared", &attribute, &[], new().handle_types(MemHandleTypes::POSIX_FD));

    let one = [EXCHANGE, cuMemPoolGetAttribute, EXCHANGE];
    // The place's number would be asked for if there were the attribute.
    table.row("MemPool::location", &one, || pool.location().unwrap());
    table.row("MemPool::kind", &one, || pool.kind().unwrap());
    table.row("MemPool::max_size", &one, || pool.max_size().unwrap());
    table.row("MemPool::handle_types", &one, || pool.handle_types().unwrap());
    table.row("MemPool::hw_decompress", &one, || pool.hw_decompress().unwrap());
    let prime = [cuStreamIsCapturing, cuMemAllocFromPoolAsync, cuMemFreeAsync];
    table.row("MemPool::prime", &prime, || pool.prime(1 << 20, &stream).unwrap());

    let asked = [&[cuDeviceGetAttribute][..], &every_device].concat();
    let default = [&asked[..], &[EXCHANGE, cuMemGetDefaultMemPool, EXCHANGE]].concat();
    let (place, kind) = (MemPoolLocation::Device, MemKind::Managed);
    table.row("MemPool::default_at", &default, || MemPool::default_at(&device, place, kind).map(drop).unwrap());
    let current = [&asked[..], &[EXCHANGE, cuMemGetMemPool, EXCHANGE]].concat();
    table.row("MemPool::current_at", &current, || {
        // SAFETY: the pool is not used.
        unsafe { MemPool::current_at(&device, place, kind) }.map(drop).unwrap();
    });
}
