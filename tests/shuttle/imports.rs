//! The book of what is imported from another process's pool.
#![cfg(unix)]

use cupool::{
    MemHandleTypes, MemPool, MemPoolProperties,
    ipc::{ExportedPointer, ImportedPool},
};
use shuttle::thread;

use crate::world::{LEN, Left, World, check};

/// Three threads import one buffer, each on a stream of its own, read it and release it; some of them find it imported,
/// some vacant, and some meet another that is in the driver for it.
#[test]
fn one_buffer_is_imported_and_released_by_several_at_once() {
    check(|| {
        let world = World::new();
        let properties = MemPoolProperties::new().max_size(16 << 20).handle_types(MemHandleTypes::POSIX_FD);
        let pool = MemPool::with_properties(&world.context.device(), &properties).unwrap();
        let imported = ImportedPool::from_fd(&world.context, pool.export_fd().unwrap()).unwrap();
        let home = world.stream();
        let mut buffer = pool.alloc::<u32, _>(LEN, &*home).unwrap();
        buffer.fill(5).unwrap();
        home.synchronize().unwrap();
        let pointer: ExportedPointer = buffer.export().unwrap();
        thread::scope(|scope| {
            for turns in [1, 2, 1] {
                let (world, imported) = (&world, &imported);
                scope.spawn(move || {
                    let stream = world.stream();
                    let mut target = world.filled(&stream, 0);
                    for _ in 0..turns {
                        // SAFETY: the buffer's stream has been waited for, and the buffer is freed after this one has.
                        let view = unsafe { imported.import::<u32, _>(&pointer, &*stream) }.unwrap();
                        target.copy_from(view.as_slice()).unwrap();
                    }
                    stream.synchronize().unwrap();
                    assert_eq!(target.to_vec().unwrap(), [5; LEN]);
                });
            }
        });
        world.context.synchronize().unwrap();
        assert_eq!(imported.imports(), Ok(0));
        drop(buffer);
        drop((imported, pool, home));
        world.end(Left::default());
    });
}
