//! Pools, buffers and events shared with other processes: exported, and imported where they came from.

use std::sync::Arc;

use cupool::{
    MemHandleTypes, MemPool, MemPoolProperties,
    ipc::{FabricHandle, ImportedPool, InterprocessEvent},
};
use cupool_sim::Symbol;

use crate::faults::world::{Base, POOL_SIZE, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = scenarios! {
        Base: a_pool_is_exported_and_imported, an_import_is_read_and_changed, two_imports_on_two_streams,
            two_imports_of_which_the_second_comes_late, an_import_after_its_release, an_import_that_outlives_its_pool,
            an_import_of_another_type;
    };
    let [event, fabric, ordinary]: [Scenario; 3] = scenarios! {
        Base: an_event_is_exported_and_not_opened_here, a_fabric_that_is_not_there, a_pool_that_cannot_be_exported;
    }
    .try_into()
    .ok()
    .unwrap();
    all.push(event.refused(&[(Symbol::cuIpcOpenEventHandle, 0)]));
    all.push(
        fabric
            .refused(&[(Symbol::cuMemPoolExportToShareableHandle, 0), (Symbol::cuMemPoolImportFromShareableHandle, 0)]),
    );
    all.push(ordinary.refused(&[(Symbol::cuMemPoolExportToShareableHandle, 0), (Symbol::cuMemPoolExportPointer, 0)]));
    all
}

fn exportable(world: &mut World<'_>, base: &Base) -> Option<MemPool> {
    let export = MemHandleTypes::POSIX_FD.union(MemHandleTypes::FABRIC);
    let properties = MemPoolProperties::new().max_size(POOL_SIZE).handle_types(export);
    world.get(MemPool::with_properties(&base.device, &properties))
}

fn import(world: &mut World<'_>, base: &Base, pool: &MemPool) -> Option<ImportedPool> {
    let file = world.get(pool.export_fd())?;
    world.get(ImportedPool::from_fd(&base.context, file))
}

fn a_pool_is_exported_and_imported(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    world.equal(imported.imports(), 0);
    Some(())
}

/// The import is at home where the buffer is, so that its release comes before the buffer's free, whatever fails.
fn an_import_is_read_and_changed(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    let buffer = world.get(pool.alloc_from_host(&[3_u32; 100], &*base.first))?;
    let pointer = world.get(buffer.export())?;
    // SAFETY: both are at home on one stream.
    let mut view = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.first) })?;
    world.equal(view.to_vec(), [3; 100]);
    // SAFETY: as above.
    world.go_on(unsafe { view.as_mut_slice() }.fill(4));
    world.go_on(view.free());
    world.equal(buffer.to_vec(), [4; 100]);
    Some(())
}

/// The last is at home where the buffer is.
fn two_imports_on_two_streams(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    let buffer = world.get(pool.alloc_from_host(&[3_u32; 100], &*base.first))?;
    let pointer = world.get(buffer.export())?;
    world.get(base.first.synchronize())?;
    // SAFETY: the allocation and the copy have been waited for, and the last import is at home where the buffer is.
    let last = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.first) })?;
    // SAFETY: as above.
    let view = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.second) })?;
    world.equal(view.to_vec(), [3; 100]);
    drop(view);
    drop(last);
    Some(())
}

fn two_imports_of_which_the_second_comes_late(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    let buffer = world.get(pool.alloc_from_host(&[3_u32; 100], &*base.first))?;
    let pointer = world.get(buffer.export())?;
    // SAFETY: both are at home on one stream.
    let view = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.first) })?;
    // SAFETY: as above.
    let again = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.first) })?;
    drop(view);
    world.equal(again.to_vec(), [3; 100]);
    // SAFETY: as above.
    let once_more = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.first) })?;
    drop(again);
    world.equal(once_more.to_vec(), [3; 100]);
    Some(())
}

fn an_import_after_its_release(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    let buffer = world.get(pool.alloc_from_host(&[3_u32; 100], &*base.first))?;
    let pointer = world.get(buffer.export())?;
    for _ in 0..2 {
        // SAFETY: both are at home on one stream.
        let view = world.get(unsafe { imported.import::<u32, _>(&pointer, &*base.first) })?;
        world.equal(view.to_vec(), [3; 100]);
    }
    world.go_on(base.first.synchronize());
    world.go_on(imported.imports());
    Some(())
}

fn an_import_that_outlives_its_pool(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    let buffer = world.get(pool.alloc_from_host(&[3_u32; 100], Arc::clone(&base.first)))?;
    let pointer = world.get(buffer.export())?;
    // SAFETY: both are at home on one stream.
    let view = world.get(unsafe { imported.import::<u32, _>(&pointer, Arc::clone(&base.first)) })?;
    drop((imported, pool, base));
    world.equal(view.to_vec(), [3; 100]);
    Some(())
}

fn an_import_of_another_type(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    let imported = import(world, &base, &pool)?;
    let buffer = world.get(pool.alloc_from_host(&[3_u32; 100], &*base.first))?;
    let pointer = world.get(buffer.export())?;
    // SAFETY: if it were imported, it would be released on the buffer's own stream.
    world.refused(unsafe { imported.import::<u8, _>(&pointer, &*base.first) });
    Some(())
}

fn an_event_is_exported_and_not_opened_here(world: &mut World<'_>, base: Base) -> Option<()> {
    let event = world.get(InterprocessEvent::new(&base.context))?;
    world.go_on(event.record(&base.first));
    let handle = world.get(event.export())?;
    // SAFETY: the event outlives what would be opened.
    world.refused(unsafe { InterprocessEvent::open(&base.context, &handle) });
    Some(())
}

fn a_fabric_that_is_not_there(world: &mut World<'_>, base: Base) -> Option<()> {
    let pool = exportable(world, &base)?;
    world.refused(pool.export_fabric());
    let mut bytes = [0; FabricHandle::BYTES];
    bytes[..12].copy_from_slice(b"cupoolXF\x01\0\0\0");
    let handle = world.get(FabricHandle::from_bytes(&bytes))?;
    world.refused(ImportedPool::from_fabric(&base.context, &handle));
    Some(())
}

fn a_pool_that_cannot_be_exported(world: &mut World<'_>, base: Base) -> Option<()> {
    let buffer = world.get(base.pool.alloc::<u32, _>(100, &*base.first))?;
    world.refused(base.pool.export_fd());
    world.refused(buffer.export());
    Some(())
}
