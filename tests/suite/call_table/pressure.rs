//! What pools and devices are asked for and made to give under pressure; access; the process's own pools.

use cupool::Access;

use super::*;

pub(super) fn pressure(table: &mut Table<'_>, device: Device) {
    let stream = table.fixture.stream();
    let pool = table.fixture.pool();
    trims(table, device, &pool, &stream);
    let get = [EXCHANGE, cuMemPoolGetAttribute, EXCHANGE];
    none! { table:
        "MemPool::soft_limit" => pool.soft_limit();
        "MemPool::set_soft_limit" => pool.set_soft_limit(Some(1000));
    }
    let asked = [EXCHANGE, cuMemPoolGetAttribute, cuMemAllocFromPoolAsync, EXCHANGE];
    drop(table.row("MemPool::alloc (soft limit)", &asked, || pool.alloc::<u8, _>(100, &stream).unwrap()));
    let figures = [&[EXCHANGE][..], &[cuMemPoolGetAttribute; 4], &[EXCHANGE]].concat();
    let refused = [&get[..], &figures].concat();
    table.row("MemPool::alloc (refused by a soft limit)", &refused, || pool.alloc::<u8, _>(2000, &stream).unwrap_err());
    pool.set_soft_limit(None);
    stream.synchronize().unwrap();
    access(table, pool);
    guards(table, device, &stream);
}

fn trims(table: &mut Table<'_>, device: Device, pool: &MemPool, stream: &Stream) {
    let trim = [cuMemPoolGetAttribute, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolGetAttribute];
    let after = [&[cuStreamIsCapturing, EXCHANGE, cuStreamSynchronize][..], &trim, &[EXCHANGE]].concat();
    let trimmed = table.row("MemPool::trim_after", &after, || pool.trim_after(stream, 0).unwrap());
    none! { table: "Trimmed::unused" => trimmed.unused(); }
    let shortfall = [EXCHANGE, cuMemPoolGetAttribute, cuMemPoolGetAttribute, EXCHANGE];
    table.row("MemPool::threshold_shortfall", &shortfall, || pool.threshold_shortfall().unwrap());
    let usage = [&[EXCHANGE][..], &[cuDeviceGetGraphMemAttribute; 4], &[EXCHANGE]].concat();
    table.row("Device::graph_memory_usage", &usage, || device.graph_memory_usage().unwrap());
    let reset = [EXCHANGE, cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, EXCHANGE];
    table.row("Device::reset_graph_memory_peaks", &reset, || device.reset_graph_memory_peaks().unwrap());
    let trim = [EXCHANGE, cuDeviceGetGraphMemAttribute, cuDeviceGraphMemTrim, cuDeviceGetGraphMemAttribute, EXCHANGE];
    table.row("Device::trim_graph_memory", &trim, || device.trim_graph_memory().unwrap());
}

fn access(table: &mut Table<'_>, mut pool: MemPool) {
    let (own, peer) = (pool.device(), table.fixture.driver().device(1).unwrap());
    let (get, set) = ([EXCHANGE, cuMemPoolGetAccess, EXCHANGE], [EXCHANGE, cuMemPoolSetAccess, EXCHANGE]);
    table.row("MemPool::access_of", &get, || pool.access_of(&peer).unwrap());
    let grant = [&[cuDeviceCanAccessPeer][..], &get, &set].concat();
    table.row("MemPool::grant", &grant, || pool.grant(&peer, Access::Read).unwrap());
    table.row("MemPool::grant (its own device)", &[], || pool.grant(&own, Access::ReadWrite).unwrap());
    let trim =
        [EXCHANGE, cuMemPoolGetAttribute, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolGetAttribute, EXCHANGE];
    let revoke = [&trim[..], &set].concat();
    table.row("MemPool::revoke", &revoke, || pool.revoke(&peer).unwrap());
    // SAFETY: the peer has no work.
    table.row("MemPool::revoke_in_use", &set, || unsafe { pool.revoke_in_use(&peer) }.unwrap());
    pool.grant(&peer, Access::ReadWrite).unwrap();
    let end = [&revoke[..], POOL_ENDS].concat();
    table.row("drop of MemPool (access granted)", &end, || drop(pool));
}

fn guards(table: &mut Table<'_>, device: Device, stream: &Stream) {
    let default = [cuDeviceGetAttribute, cuDeviceGetDefaultMemPool];
    let raise = [&[EXCHANGE][..], &default, &[cuMemPoolGetAttribute, cuMemPoolSetAttribute, EXCHANGE]].concat();
    let raised = || MemPool::raise_default_threshold(&device, 1000).unwrap();
    let guard = table.row("MemPool::raise_default_threshold", &raise, raised);
    none! { table: "DefaultThreshold::is_active" => guard.is_active(); }
    table.row("drop of DefaultThreshold", &raise, || drop(guard));

    let mut pool = table.fixture.pool();
    let begin = [EXCHANGE, cuDeviceGetMemPool, cuDeviceGetDefaultMemPool, cuDeviceSetMemPool, EXCHANGE];
    let current = table.row("MemPool::make_current", &begin, || pool.make_current().unwrap());
    let one = [cuMemAllocAsync];
    drop(table.row("Buffer::from_current_pool", &one, || Buffer::<u8, _>::from_current_pool(10, stream).unwrap()));
    table.row("drop of CurrentPool", &begin, || drop(current));
    // SAFETY: the current pool is the default one.
    drop(table.row("MemPool::make_current_over", &begin, || unsafe { pool.make_current_over() }.unwrap()));
}
