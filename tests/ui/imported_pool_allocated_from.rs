//! The driver refuses to allocate from an imported pool, so that type has no such call.
use cupool::{MemPool, Stream, ipc::ImportedPool};

pub fn f(pool: &MemPool, imported: &ImportedPool, stream: &Stream) {
    drop(pool.alloc::<u8, _>(1, stream));
    #[cfg(misuse)]
    drop(imported.alloc::<u8, _>(1, stream)); //~ E0599
    let _ = imported;
}
